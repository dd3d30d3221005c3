#!/usr/bin/env python3
"""A resource type for Muster: one setting of an INI file. Reads one JSON object, prints one JSON object.

The engine compares the desired state with the actual state, and decides the order of changes. This program only returns the
actual state (`read`) and changes one property (`apply`).
"""
import json
import os
import sys
import tempfile


def lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def find(text, section, setting):
    """Returns two indexes: of the line of the setting, and of the line at which a new setting is inserted.

    The first is None if the setting is absent; the second is None if the section is absent.
    """
    current, after = "", 0 if section == "" else None
    for number, line in enumerate(text):
        word = line.strip()
        if word.startswith("[") and word.endswith("]"):
            current = word[1:-1]
        if current == section:
            after = number + 1
            name, equals, _ = word.partition("=")
            if equals and name.strip() == setting:
                return number, after
    return None, after


def write(path, text):
    directory = os.path.dirname(path)
    handle, name = tempfile.mkstemp(dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in text))
        os.chmod(name, os.stat(path).st_mode & 0o7777 if os.path.exists(path) else 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main():
    call = json.load(sys.stdin)
    desired = call["desired"]
    if call["op"] == "list":
        return {"error": "settings cannot be listed: a file is not known"}
    path, section = desired.get("path"), desired.get("section", "")
    if path is None:
        return {"error": "`path` is needed"}
    setting = desired.get("setting", call["name"])
    text = lines(path)
    number, after = find(text, section, setting)
    if call["op"] == "read":
        if number is None:
            return {"state": {"ensure": "absent"}}
        value = text[number].partition("=")[2].strip()
        return {"state": {"ensure": "present", "value": value}}
    if call["op"] == "apply":
        if desired.get("ensure") == "absent":
            del text[number]
        elif number is not None:
            text[number] = f"{setting} = {desired['value']}"
        else:
            if after is None:
                text.append(f"[{section}]")
                after = len(text)
            text.insert(after, f"{setting} = {desired.get('value', '')}")
        write(path, text)
        return {}
    return {"error": f"no operation {call['op']}"}


if __name__ == "__main__":
    print(json.dumps(main()))
