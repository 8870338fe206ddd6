"""Codes of findings that reading specs can give, before any rule runs. Code, what it means, what helps."""

CODES: dict[str, tuple[str, str]] = {
    "SPC001": ("The file cannot be read: not UTF-8, a folder, a broken link, too large, tabs, or not valid YAML.", "Save it as UTF-8 text with spaces for indentation; the place in the message is where reading stopped."),
    "SPC002": ("The file is empty.", "Start from `podwright new`."),
    "SPC003": ("A key is a list or a mapping.", "Write one word before the colon."),
    "SPC004": ("A key stands twice in one mapping. YAML would silently keep the last one.", "Delete one of the two."),
    "SPC005": ("A YAML tag (`!something`) stands in the file.", "Remove it: a spec is plain data."),
    "SPC006": ("A value that YAML 1.1 and YAML 1.2 read differently: `no`, `on`, `1e6`, `010`, `1_000`, `0x1f`, `1:30`, `~`.", "Write true, false, null or plain digits, or quote it where text is meant."),
    "SPC007": ("Anchors, aliases and merges are refused: a reader, and the editor, must see each value where it stands.", "Write the value out, or let a profile use `extends:`."),
    "SPC008": ("The file nests too deeply to be a spec.", "Flatten it."),
    "SPC010": ("The file is not a mapping of keys to values.", "Write `key: value` lines."),
    "SPC011": ("A key that the spec does not have. It would change nothing, silently.", "The message names the nearest key that exists."),
    "SPC012": ("A key that the spec must have is missing.", "The message says what belongs there."),
    "SPC013": ("A value of the wrong type, form or range.", "The message says what the key means and which form it takes."),
    "SPC014": ("The file says that it is another kind of spec than its folder holds.", "Move it to the folder of its kind."),
    "SPC020": ("A name that no spec has: a model, hardware, engine, parent or swap member.", "The message names the nearest one."),
    "SPC021": ("Profiles extend each other in a circle; the message shows it.", "Let one of them stand alone."),
    "SPC022": ("Evidence that does not exist is cited.", "Correct the reference, or record the measurement in specs/evidence."),
    "SPC024": ("The engine's flag snapshot is missing or is not one.", "Take it with `podwright engine snapshot`."),
    "SPC025": ("The engine's constraints lock is missing.", "Resolve it with images/engine/lock_release.py."),
    "SPC030": ("A secret stands in clear in a spec. It is recognised by its shape and never printed.", "Revoke it, name it under `secrets:`, and store its value with the provider."),
    "TGT001": ("The place to run would refuse the request: a documented limit of its interface.", "The message says which limit and by how much."),
}
