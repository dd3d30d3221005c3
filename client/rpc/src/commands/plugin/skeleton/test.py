#!/usr/bin/env python3
"""Runs @AGENT@ as the daemon does, with request and reply files, and compares its replies with its DDL."""

import json
import pathlib
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROTOCOL = "io.choria.mcorpc.external.v1."


def ask(kind, **request):
    """The reply to a request of this kind."""
    with tempfile.TemporaryDirectory() as directory:
        request_file, reply_file = (pathlib.Path(directory, name) for name in ("request", "reply"))
        request_file.write_text(json.dumps({"protocol": PROTOCOL + kind, "agent": "@AGENT@", **request}))
        arguments = [HERE / "@AGENT@", request_file, reply_file, PROTOCOL + kind]
        subprocess.run(arguments, check=True, timeout=20)
        return json.loads(reply_file.read_text())


class Agent(unittest.TestCase):
    def test_it_is_of_use(self):
        self.assertIs(ask("activation_request")["activate"], True)

    def test_each_action_answers_with_what_it_declares(self):
        ddl = json.loads((HERE / "@AGENT@.json").read_text())
        for action in ddl["actions"]:
            with self.subTest(action["action"]):
                reply = ask("rpc_request", action=action["action"], data={})
                self.assertEqual(reply["statuscode"], 0, reply)
                self.assertLessEqual(set(reply["data"]), set(action["output"]))

    def test_an_unknown_action_is_told(self):
        self.assertEqual(ask("rpc_request", action="nosuchaction", data={})["statuscode"], 2)


if __name__ == "__main__":
    unittest.main()
