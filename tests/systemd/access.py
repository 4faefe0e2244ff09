#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every method of the control socket, and the broker protocol's socket, against each kind of user. As root:

    access.py MEMBER TRIGGER STRANGER

The methods come from flightd's own interface description, so a new one is asked for, too: for root and MEMBER each must
be anything but PermissionDenied; for the others exactly that, but for TRIGGER's FireTrigger. A line for each case.
"""
import json
import os
import pwd
import re
import socket
import sys

CONTROL = "/run/flightd/io.flightd.Recorder"
BROKER = "/run/flightd-broker/socket"
RECORDER = "io.flightd.Recorder"
DENIED = "org.varlink.service.PermissionDenied"
NONE = {"id": "999999999"}  # no such snapshot, so nothing is lost
PARAMETERS = {
    "DescribeSnapshot": NONE, "ReadSnapshot": NONE, "RemoveSnapshot": NONE, "PinSnapshot": {**NONE, "pinned": True},
    "StopRecording": NONE,
    "Vacuum": {"dry_run": True}, "FireTrigger": {"name": "no-such-trigger"},
    "SetTrigger": {"name": "no-such-trigger", "enabled": True}, "SetRecording": {"recording": True},
}
FLAGS = {"ReadSnapshot": {"upgrade": True}, "Monitor": {"more": True}}


def call(method, parameters, flags):
    """The error's name, or "" for a reply."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(60)
        peer.connect(CONTROL)
        peer.sendall(json.dumps({"method": method, "parameters": parameters, **flags}).encode() + b"\0")
        text = b""
        while b"\0" not in text:
            more = peer.recv(65536)
            if not more:
                return "no answer"
            text += more
    reply = json.loads(text.split(b"\0")[0])
    return reply if method.endswith("GetInterfaceDescription") else reply.get("error", "")


def try_broker():
    """How the broker's socket refuses: by the file's mode, or by leaving."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.settimeout(10)
        try:
            peer.connect(BROKER)
        except PermissionError:
            return ""
        try:
            peer.send(b"a")
            got = peer.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return ""
        except socket.timeout:
            return "it keeps the connection"
        return f"it answers with {len(got)} bytes" if got else ""


def check(name, wrong):
    print(f"not ok {name}: {wrong}" if wrong else f"ok {name}", flush=True)


def as_user(user, what):
    """Runs what() in a process that is this user, with its groups."""
    child = os.fork()
    if child == 0:
        if user != "root":
            entry = pwd.getpwnam(user)
            os.initgroups(user, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
        what()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        check(f"as {user}", "the test itself ended before its end")


def main():
    member, trigger, stranger = sys.argv[1:]
    idl = call("org.varlink.service.GetInterfaceDescription", {"interface": RECORDER}, {})["parameters"]["description"]
    methods = re.findall(r"(?m)^method (\w+)", idl)
    if len(methods) < 15:
        check("the interface description", f"has {len(methods)} methods only")

    def everything(user):
        may = {"root": set(methods), member: set(methods), trigger: {"FireTrigger"}, stranger: set()}[user]
        check(f"{user}: GetInfo", call("org.varlink.service.GetInfo", {}, {}))
        for method in methods:
            error = call(f"{RECORDER}.{method}", PARAMETERS.get(method, {}), FLAGS.get(method, {}))
            refused = error == DENIED
            wrong = "" if refused == (method not in may) and error != "no answer" else error or "was not refused"
            check(f"{user}: {method} {'may' if method in may else 'is refused'}", wrong)

    for user in ("root", member, trigger, stranger):
        as_user(user, lambda user=user: everything(user))
    for user in ("root", member, trigger, stranger, "flightd-broker"):
        as_user(user, lambda user=user: check(f"{user}: the broker's socket is closed", try_broker()))


main()
