"""Receives webhooks of Opilio and verifies them: `python webhook_receiver.py whsec_… [port]`."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

WEBHOOK = Webhook(sys.argv[1])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = WEBHOOK.verify(body, dict(self.headers))
        except WebhookVerificationError as error:
            self.send_error(400, str(error))
            return
        print(self.headers["webhook-id"], event["type"], event["subject"], flush=True)
        self.send_response(204)
        self.end_headers()


HTTPServer(("127.0.0.1", int((sys.argv[2:] or ["9000"])[0])), Receiver).serve_forever()
