"""The engine release itself as judge: what it would do with a plan on the plan's card, asked without the card.

`question` plan -> what to ask; `facts`, `configs` the model's config.json; `environment`, `asking` the release and its answer;
`comparison` answer and plan -> rows; `command` all of it for `podwright verify`.
"""
