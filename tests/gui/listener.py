# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside Blender: executes what comes in over a Unix socket, between two turns of its main loop.

A request is one line of JSON, {"code": ..., "value": ...}: statements to execute, then an expression to
evaluate. The answer is one too: {"value": ...}, or {"error": a traceback}. What is defined stays defined.

Where Python is goes to the error output when Blender crashes, and when it is asked with SIGUSR1.
"""

import faulthandler
import json
import os
import signal
import socket
import traceback

import bpy

PAUSE_SECONDS = 0.01
"""Between two looks at the socket [s]."""

faulthandler.enable()
faulthandler.register(signal.SIGUSR1)

known = {"bpy": bpy}
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["POISE_TEST_SOCKET"])
server.listen()
server.setblocking(False)


def answer() -> float:
    """Serve one request if there is one."""
    try:
        connection, _address = server.accept()
    except BlockingIOError:
        return PAUSE_SECONDS
    connection.setblocking(True)
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        try:
            request = json.loads(stream.readline())
            exec(request["code"], known)
            reply = {"value": eval(request["value"], known) if request["value"] else None}
        except Exception:  # noqa: BLE001 (whatever it is, the test tells of it)
            reply = {"error": traceback.format_exc()}
        stream.write(json.dumps(reply, default=str) + "\n")
    return PAUSE_SECONDS


bpy.context.preferences.view.show_splash = False
bpy.app.timers.register(answer, persistent=True)
