"""Passes Loglake's alerts on to a chat and to a pager: an example for your own site, without other packages.

    LOGLAKE_CHAT_URL=https://hooks.slack.com/services/… LOGLAKE_PAGER_KEY=… python3 deploy/alert_relay.py

It listens on 127.0.0.1, port 9095; name it in the policies of each lake: `alerts.webhook: http://127.0.0.1:9095`. If a
service does not take a message, the answer is 502, and Loglake posts the document again later.

    LOGLAKE_CHAT_URL    an incoming webhook of Slack, Mattermost or another service that takes {"text": …}
    LOGLAKE_PAGER_KEY   a routing key of PagerDuty's Events API v2; LOGLAKE_PAGER_URL names another such service
    LOGLAKE_RELAY_PORT  another port
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

PAGER_URL = "https://events.pagerduty.com/v2/enqueue"
MOST_SHOWN = 5
"""Problems in a message of the chat; the document has up to 20."""


def chat_message(alert: Mapping[str, Any]) -> dict[str, Any]:
    """The document as a message for people."""
    lines = [f"*{alert['severity']}* {alert['summary']}"]
    lines += [f"• {each['place']}: {each['what']}\n  `{each['command']}`" for each in alert["problems"][:MOST_SHOWN]]
    lines += [f"• failed: {run['job']} {run['link']}" for run in alert["failed_runs"]]
    lines.append(f"What now: `{alert['command']}`")
    return {"text": "\n".join(lines)}


def pager_event(alert: Mapping[str, Any], routing_key: str) -> dict[str, Any]:
    """The document as an event: one incident for each lake, resolved when its problems are gone."""
    is_over = not alert["problems"] and not alert["failed_runs"]
    event = {"routing_key": routing_key, "event_action": "resolve", "dedup_key": f"loglake {alert['lake']}"}
    if is_over:
        return event
    return event | {
        "event_action": "trigger",
        "payload": {
            "summary": alert["summary"][:1024],
            "source": alert["lake"],
            "severity": alert["severity"],
            "custom_details": {"problems": alert["problems"], "command": alert["command"]},
        },
        "links": [{"href": run["link"], "text": run["job"]} for run in alert["failed_runs"]],
    }


def post(address: str, document: Mapping[str, Any]) -> None:
    """Post a document. Raises OSError if it is not taken."""
    body = json.dumps(document).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310 - the operator's
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - as above


class Relay(BaseHTTPRequestHandler):
    """Takes a document and passes it on."""

    def do_POST(self) -> None:
        """Post it to each service that is set."""
        alert = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat, key = os.environ.get("LOGLAKE_CHAT_URL"), os.environ.get("LOGLAKE_PAGER_KEY")
        status = 200
        try:
            if chat:
                post(chat, chat_message(alert))
            if key:
                post(os.environ.get("LOGLAKE_PAGER_URL", PAGER_URL), pager_event(alert, key))
        except OSError:
            status = 502
        self.send_response(status)
        self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(os.environ.get("LOGLAKE_RELAY_PORT", "9095"))), Relay).serve_forever()
