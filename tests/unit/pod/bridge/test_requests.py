"""Requests: what the recorded cases do not show, duty by duty."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import pytest
from pod.bridge import count, native, translate
from pod.bridge.errors import InvalidRequestError
from pod.bridge.models import Names
from pod.bridge.settings import Model, Settings

MODEL = Model(("served",), "http://127.0.0.1:1", context_window=1000, reasoning=True, multimodal=True, architecture="Qwen3ForCausalLM")
SETTINGS = Settings((MODEL,), thinking_budget=True)
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
RUN = {"name": "run", "input_schema": {"type": "object", "properties": {}}}


def translated(settings: Settings = SETTINGS, pdf: Any = None, **body: Any) -> translate.Translation:
    whole = {"model": "any", "max_tokens": 40000, "messages": [{"role": "user", "content": "hi"}], **body}
    return translate.chat_request(whole, settings, Names(settings.models), pdf=pdf)


def messages_of(*messages: tuple[str, Any], **body: Any) -> list[dict[str, Any]]:
    made = translated(messages=[{"role": role, "content": content} for role, content in messages], **body)
    found = made.body["messages"]
    assert isinstance(found, list)
    return found


def use(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "run", "input": arguments}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    ("fields", "budget", "enabled"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 64}}, 64, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 8000}}, 8000, True),
        ({"thinking": {"type": "adaptive"}}, None, True),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None, False),
        ({"output_config": {"effort": "low"}}, 1024, None),
        ({"output_config": {"effort": "medium"}}, 4096, None),
        ({"output_config": {"effort": "high"}}, 16384, None),
        ({"output_config": {"effort": "xhigh"}}, 32768, None),
        ({"output_config": {"effort": "max"}}, None, None),
        ({"output_config": {"effort": "beyond"}}, None, None),
        ({"output_config": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 99}}, 99, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 40000}}, 38976, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 900}, "max_tokens": 400}, 300, True),
        ({}, None, None),
        # Claude Code with its thinking off, of now and of before; then with it on; then another client.
        ({"metadata": {"user_id": '{"device_id":"d","session_id":"s"}'}, "output_config": {"effort": "high"}}, None, False),
        ({"metadata": {"user_id": "user_1_account__session_2"}}, None, False),
        ({"metadata": {"user_id": "user_1_account__session_2"}, "thinking": {"type": "adaptive"}}, None, True),
        ({"metadata": {"user_id": "user_1"}}, None, None),
    ],
)
def test_thinking(fields: dict[str, Any], budget: int | None, enabled: bool | None) -> None:
    body = translated(**fields).body
    assert body.get("thinking_token_budget") == budget
    assert body.get("chat_template_kwargs", {}).get("enable_thinking") is enabled
    assert "reasoning_effort" not in body


def test_a_budget_is_not_sent_to_an_engine_that_refuses_it_and_the_trace_says_so() -> None:
    made = translated(dataclasses.replace(SETTINGS, thinking_budget=False), output_config={"effort": "low"})
    assert "thinking_token_budget" not in made.body
    assert any("refuses budgets" in note for note in made.notes)


def test_a_refused_budget_is_left_out_of_the_second_try() -> None:
    chat = translated(output_config={"effort": "low"}).body
    again = translate.without_budget(chat)
    assert chat["thinking_token_budget"] == 1024
    assert {**again, "thinking_token_budget": 1024} == chat


@pytest.mark.parametrize(("effort", "level"), [("low", "low"), ("high", "high"), ("max", "high"), ("xhigh", "high")])
def test_a_model_with_levels_gets_the_nearest_one(effort: str, level: str) -> None:
    model = dataclasses.replace(MODEL, architecture="GptOssForCausalLM")
    assert translated(dataclasses.replace(SETTINGS, models=(model,)), output_config={"effort": effort}).body["reasoning_effort"] == level


def test_nemotron_is_told_to_answer() -> None:
    model = dataclasses.replace(MODEL, architecture="NemotronHForCausalLM")
    made = translated(dataclasses.replace(SETTINGS, models=(model,)), thinking={"type": "disabled"})
    assert made.body["chat_template_kwargs"] == {"force_nonempty_content": True, "enable_thinking": False}


@pytest.mark.parametrize(
    ("thinking", "route"),
    [
        ({"type": "enabled", "budget_tokens": 0}, "thinking.budget_tokens"),
        ({"type": "enabled", "budget_tokens": True}, "thinking.budget_tokens"),
        ({"type": "enabled", "budget_tokens": "9"}, "thinking.budget_tokens"),
        ("on", "thinking"),
    ],
)
def test_thinking_that_cannot_be_meant(thinking: Any, route: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        translated(thinking=thinking)
    assert caught.value.route == route


def test_thinking_of_earlier_turns_stays_the_reasoning_of_its_turn() -> None:
    messages = messages_of(
        ("user", "a"),
        (
            "assistant",
            [
                {"type": "thinking", "thinking": "plan", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "b"},
                use("t1", cmd="ls"),
            ],
        ),
        ("user", [result("t1", "out")]),
    )
    assert messages[1] == {
        "role": "assistant",
        "content": "b",
        "reasoning": "plan",
        "reasoning_content": "plan",
        "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "run", "arguments": '{"cmd":"ls"}'}}],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "t1", "content": "out"}


def test_results_come_in_the_order_of_the_calls_each_with_its_own() -> None:
    messages = messages_of(
        ("user", "a"), ("assistant", [use("t1"), use("t2"), use("t3")]), ("user", [result("t3", "3"), result("t1", "1")])
    )
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:]] == [
        ("t1", "1"),
        ("t2", "(no result: this call was not carried out)"),
        ("t3", "3"),
    ]


def test_results_in_two_messages_belong_to_one_turn() -> None:
    messages = messages_of(
        ("user", "a"), ("assistant", [use("t1"), use("t2")]), ("user", [result("t1", "1")]), ("user", [result("t2", "2")])
    )
    assert [m["content"] for m in messages[2:]] == ["1", "2"]


def test_a_result_without_its_call_is_kept_as_text() -> None:
    made = translated(messages=[{"role": "user", "content": [result("gone", "old")]}])
    assert made.body["messages"] == [{"role": "user", "content": "[Result of an earlier tool call]\nold"}]
    assert any("answers no open call" in note for note in made.notes)


def test_a_call_at_the_very_end_is_answered_for() -> None:
    assert messages_of(("user", "a"), ("assistant", [use("t1")]))[-1]["content"].startswith("(no result")


def test_images_of_results_follow_all_results() -> None:
    messages = messages_of(
        ("user", "a"),
        ("assistant", [use("t1"), use("t2")]),
        ("user", [result("t1", [PNG]), result("t2", [{"type": "text", "text": "x"}, PNG]), {"type": "text", "text": "look"}]),
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "(see the image below)"
    assert messages[4]["content"] == [
        {"type": "text", "text": "[Image from tool call t1]"},
        PNG_PART,
        {"type": "text", "text": "[Image from tool call t2]"},
        PNG_PART,
        {"type": "text", "text": "look"},
    ]


def test_images_by_address_and_for_models_without_eyes() -> None:
    by_url = {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}
    assert messages_of(("user", [by_url]))[0]["content"] == [{"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}]
    blind = dataclasses.replace(SETTINGS, models=(dataclasses.replace(MODEL, multimodal=False),))
    made = translated(blind, messages=[{"role": "user", "content": [PNG]}])
    assert made.body["messages"] == [{"role": "user", "content": "[An image stood here; this model cannot see images.]"}]


PDF = {
    "type": "document",
    "title": "p.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(b"%PDF").decode()},
}


def test_a_pdf_is_read_where_a_library_can() -> None:
    made = translated(pdf=lambda data: f"{len(data)} bytes", messages=[{"role": "user", "content": [PDF]}])
    assert made.body["messages"][0]["content"] == "[Document: p.pdf]\n4 bytes"


def test_a_pdf_that_cannot_be_read_is_refused_once_and_does_not_end_the_session() -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\.2\.content\.0\.document: this server does not support PDF input"):
        messages_of(("user", "a"), ("assistant", "b"), ("user", [PDF]))
    later = messages_of(("user", [PDF]), ("assistant", "b"), ("user", "c"))
    assert "this server does not support PDF input" in later[0]["content"]


def test_documents_inside_results_and_of_parts() -> None:
    document = {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "one"}]}}
    plain = {"type": "document", "title": "n", "source": {"type": "text", "data": "two"}}
    messages = messages_of(("user", "a"), ("assistant", [use("t1")]), ("user", [result("t1", [document, [plain]])]))
    assert messages[2]["content"] == "[Document]\none\n[Document: n]\ntwo"


def test_blocks_of_anthropics_servers_leave_their_texts() -> None:
    messages = messages_of(
        ("user", "a"),
        (
            "assistant",
            [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s1",
                    "content": [{"type": "web_search_result", "title": "T", "url": "https://t.test"}],
                },
                {"type": "text", "text": "found"},
            ],
        ),
        ("user", "more"),
    )
    assert (
        messages[1]["content"] == '[web_search was used with {"query":"q"}]\n[Result of web_search]\n[Web page: T, https://t.test]\nfound'
    )


def test_tools_that_clients_run_get_a_schema_and_those_that_cannot_be_are_told() -> None:
    made = translated(
        tools=[{"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "web_search"}],
        tool_choice={"type": "tool", "name": "web_search"},
    )
    assert [tool["function"]["name"] for tool in made.body["tools"]] == ["bash"]
    assert "command" in made.body["tools"][0]["function"]["parameters"]["properties"]
    assert made.body["tool_choice"] == "auto"
    assert made.body["messages"][0]["content"].startswith("Not available in this session: web_search.")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "run"}, {"type": "function", "function": {"name": "run"}}),
    ],
)
def test_tool_choice(choice: dict[str, Any], sent: Any) -> None:
    assert translated(tools=[RUN], tool_choice=choice).body["tool_choice"] == sent


def test_tool_choice_without_tools_says_nothing() -> None:
    assert (
        not {"tool_choice", "tools", "parallel_tool_calls"}
        & translated(tool_choice={"type": "auto", "disable_parallel_tool_use": True}).body.keys()
    )


@pytest.mark.parametrize(
    ("body", "route"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "messages.0.content.0.tool_use_id"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ({"tools": [{"name": "a", "input_schema": []}]}, "tools.0.input_schema"),
        ({"tools": [RUN], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice.name"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"system": 7}, "system"),
        ({"output_config": 1}, "output_config"),
    ],
)
def test_refusals_name_their_place(body: dict[str, Any], route: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        translated(**body)
    assert caught.value.route == route
    assert caught.value.message.startswith(route)


def test_a_begun_answer_cannot_be_thought_about() -> None:
    begun = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(InvalidRequestError, match="thinking"):
        translated(messages=begun, thinking={"type": "enabled", "budget_tokens": 1024})


def test_a_system_message_in_the_middle_changes_nothing_before_it() -> None:
    before = messages_of(("user", "a"), ("assistant", "b"), ("user", "c"), system="S")
    after = messages_of(("user", "a"), ("assistant", "b"), ("user", "c"), ("system", "note"), ("assistant", "d"), ("user", "e"), system="S")
    assert after[:3] == before[:3]
    assert after[3]["content"] == "c\n\n<system-reminder>\nnote\n</system-reminder>"
    assert [m["role"] for m in after] == ["system", "user", "assistant", "user", "assistant", "user"]


def test_system_blocks_are_kept_apart_and_empty_ones_left_out() -> None:
    blocks = [
        {"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "two"},
    ]
    assert messages_of(("user", "a"), system=blocks)[0] == {"role": "system", "content": "one\n\ntwo"}
    assert messages_of(("user", "a"), system=blocks[:1])[0]["role"] == "user"


def test_a_stream_asks_for_usage_in_each_chunk() -> None:
    body = translated(stream=True).body
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True, "continuous_usage_stats": True})
    assert not {"stream", "stream_options"} & translated().body.keys()


def test_count_tokens_sees_what_the_request_sees() -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "system": "S",
        "tools": [RUN],
        "thinking": {"type": "disabled"},
        "messages": [{"role": "user", "content": "hi"}],
    }
    counted = count.tokenize_request(body, SETTINGS, Names(SETTINGS.models)).body
    chat = translate.chat_request(body, SETTINGS, Names(SETTINGS.models)).body
    assert counted == {key: chat[key] for key in ("model", "messages", "tools", "chat_template_kwargs")}


@pytest.mark.parametrize(
    ("answer", "number"),
    [(b'{"count":398,"max_model_len":9,"tokens":[1,2]}', 398), (b'{"tokens":[1,2],"count":2}', 2), (b'{"input_tokens": 7}', 7)],
)
def test_the_number_in_a_count(answer: bytes, number: int) -> None:
    assert count.count_in(answer) == number


def test_native_requests_are_made_fit() -> None:
    body = {
        "model": "claude-x",
        "max_tokens": 9000,
        "stream": True,
        "system": "x-anthropic-billing-header: a\nS",
        "thinking": {"type": "enabled", "budget_tokens": 64},
        "tools": [{"name": "noargs"}],
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "document", "title": "n", "source": {"type": "text", "data": "t"}, "cache_control": {"type": "ephemeral"}}
                ],
            },
            {"role": "assistant", "content": [use("t1")]},
            {"role": "user", "content": [result("t1", [PNG], is_error=True)]},
        ],
    }
    made = native.native_request(body, SETTINGS, Names(SETTINGS.models)).body
    assert made == {
        "model": "served",
        "max_tokens": 9000,
        "stream": True,
        "system": "S",
        "stop_sequences": ["END"],
        "chat_template_kwargs": {"enable_thinking": True},
        "thinking": {"type": "adaptive"},
        "tools": [{"name": "noargs", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "[Document: n]\nt"}]},
            {"role": "assistant", "content": [use("t1")]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "[tool error] (see the image below)", "is_error": True},
                    PNG,
                ],
            },
        ],
    }


def test_a_body_that_is_no_json_is_refused() -> None:
    assert translate.parsed_body(b'{"a":1}') == translate.parsed_body(bytearray(b'{"a":1}')) == {"a": 1}
    with pytest.raises(InvalidRequestError, match="not valid JSON"):
        translate.parsed_body(b'{"a":')
