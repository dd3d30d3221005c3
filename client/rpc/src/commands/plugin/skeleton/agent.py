#!/usr/bin/env python3
"""@AGENT@: an external agent. The daemon runs it once for each request: AGENT REQUEST-FILE REPLY-FILE PROTOCOL."""

import json
import sys

ACTIVATION = "io.choria.mcorpc.external.v1.activation_request"


class Failed(Exception):
    """The action failed. Status 1: failed, 3: missing input, 4: invalid input, 5: other error."""

    def __init__(self, why, status=1):
        super().__init__(why)
        self.status = status


def is_of_use():
    """Whether this node should offer the agent."""
    return True


@FUNCTIONS@


ACTIONS = {
@TABLE@
}


def answer(request, protocol):
    """The reply to a request."""
    if protocol == ACTIVATION:
        return {"activate": is_of_use()}
    action = ACTIONS.get(request["action"])
    if action is None:
        return {"statuscode": 2, "statusmsg": "unknown action " + request["action"], "data": {}}
    try:
        return {"statuscode": 0, "statusmsg": "OK", "data": action(request["data"], request)}
    except Failed as failed:
        return {"statuscode": failed.status, "statusmsg": str(failed), "data": {}}


def main():
    request_file, reply_file, protocol = sys.argv[1:4]
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    with open(reply_file, "w", encoding="utf-8") as file:
        json.dump(answer(request, protocol), file)


if __name__ == "__main__":
    main()
