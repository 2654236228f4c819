"""Executes the examples of the reference as shown: examples.py URL EMAIL PASSWORD MAILS.

The operations are called in the order of a story, from the registration of an account to the deletion of its plant.
Each request is the document's example, sent by an account with a role that the operation requires. Only the values in
UNKNOWN are replaced, because the service chooses them. A response must be successful and match the document. At the
end, each operation must have been called with each type of body, and each successful response must have an example
that matches its schema. MAILS is the directory of the mails (tests/smtp/server.py). Exits with 1 at the first problem.
"""

import json
import re
import sys
import time
from pathlib import Path

import requests
from jsonschema_rs import Draft202012Validator

UNKNOWN = {
    # ids in paths
    "id", "attachmentId", "documentId", "readingId", "bulkUploadId", "headUuid", "deliveryId", "organizationId",
    # members of bodies: ids, the token of a mailed link, and the generated credentials of a program
    "apiUserId", "token", "client_id", "client_secret", "offset",
}  # fmt: skip

# Responses without an example: streams do not end, files and metrics have no fixed form.
WITHOUT_EXAMPLE = {"text/event-stream", "text/plain", "*/*"}

WAIT_S = 60


class Story:
    def __init__(self, url, mails):
        self.url, self.mails = url, Path(mails)
        self.document = requests.get(f"{url}/openapi.json", timeout=WAIT_S).json()
        self.tokens, self.roles, self.told = {}, {}, set()

    def fits(self, schema, value, what):
        """Ends the program unless the value matches the schema."""
        whole = {**schema, "components": self.document["components"]}
        for error in Draft202012Validator(whole, validate_formats=True).iter_errors(value):
            sys.exit(f"{what}: {error.message[:500]} at {error.instance_path}: {json.dumps(value)[:500]}")

    def call(self, method, path, who=None, **request):
        """Sends a request that is not in the document's examples, and returns the JSON of its response."""
        answer = self.send(method, path, who, **request)
        if not answer.ok:
            sys.exit(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")
        return answer.json() if answer.content else None

    def send(self, method, path, who, headers=None, **request):
        headers = dict(headers or {})
        if who:
            headers["Authorization"] = f"Bearer {self.tokens[who]}"
        return requests.request(method, self.url + path, headers=headers, timeout=WAIT_S, **request)

    def role(self, who):
        if who not in self.roles:
            self.roles[who] = self.call("GET", "/api/auth/me", who)["role"]
        return self.roles[who]

    def login(self, who, email, password):
        self.tokens[who] = self.call("POST", "/api/auth/login", json={"username": email, "password": password})[
            "accessToken"
        ]

    def token(self, to, count):
        """Waits for this many mails with a link to an address, and returns the token of the last one."""

        def found():
            mails = [json.loads(file.read_text()) for file in sorted(self.mails.glob("*.json"))]
            links = [re.search(r"[0-9a-f]{64}", mail["body"]) for mail in mails if mail["to"][0] == to]
            return [link[0] for link in links if link][count - 1 :]

        return self.soon(f"mail {count} to {to}", found)[-1]

    def soon(self, what, check):
        """Returns the first result of check() that is not empty."""
        for _ in range(WAIT_S * 10):
            if found := check():
                return found
            time.sleep(0.1)
        return sys.exit(f"{what} did not happen in {WAIT_S} s")

    def parameters(self, operation, place, given):
        """Returns the examples of the parameters in a place, with the values that the service chose."""
        values = {}
        for parameter in operation.get("parameters", []):
            name = parameter.get("name")
            if parameter.get("in") != place:
                continue
            examples = parameter["schema"].get("examples")
            if name in given:
                values[name] = given[name]
            elif examples:
                values[name] = examples[0]
            elif parameter["required"]:
                sys.exit(f"{operation['operationId']}: {name} has no example")
        return values

    def body(self, operation, media, given):
        """Returns the arguments of `requests` for the example of a body."""
        content = operation["requestBody"]["content"][media]
        if "example" not in content:
            sys.exit(f"{operation['operationId']}: no example of {media}")
        example = content["example"]
        self.fits(content["schema"], example, f"{operation['operationId']}: the example of {media}")
        if media == "multipart/form-data":
            return {"files": [part for name in example for part in self.parts(content["schema"], name, example[name])]}
        example = {**example, **given}
        return {"json": example} if media == "application/json" else {"data": example}

    def parts(self, schema, name, value):
        if isinstance(value, dict):
            return [(name, (None, json.dumps(value), "application/json"))]
        schema = self.document["components"]["schemas"][schema["$ref"].split("/")[-1]]
        about = schema["properties"][name].get("description", "")
        ending = re.search(r"name must end in (\.\w+)", about)  # the one thing that an example does not show
        contents = value if isinstance(value, list) else [value]
        return [(name, (name + (ending[1] if ending else ".txt"), content)) for content in contents]

    def tell(self, line, who=None, media=None, headers=None, **given):
        """Executes the example of an operation, "METHOD /path", and returns the JSON of its response.

        `given`: values that only the service knows. `media`: the type of the body, JSON if there are several.
        """
        method, path = line.split()
        operation = self.document["paths"][path][method.lower()]
        if wrong := set(given) - UNKNOWN:
            sys.exit(f"{line}: the example must have {wrong}")
        if bool(who) == (operation["security"] == []) and path != "/api/auth/refresh":
            sys.exit(f"{line}: needs {operation['x-roles']}, not {who}")
        if who and self.role(who) not in operation["x-roles"]:
            sys.exit(f"{line}: {self.role(who)} is not in {operation['x-roles']}")
        segments, content = self.parameters(operation, "path", given), operation.get("requestBody", {}).get("content")
        request = {"params": self.parameters(operation, "query", {}), "headers": headers}
        if content:
            media = media or ("application/json" if "application/json" in content else next(iter(content)))
            request |= self.body(operation, media, {name: given[name] for name in given if name not in segments})
        target = path
        for name, value in segments.items():
            target = target.replace("{" + name + "}", requests.utils.quote(str(value), safe=""))
        answer = self.send(method, target, who, **request)
        self.told.add((line, media))
        return self.judge(line, operation, answer)

    def judge(self, line, operation, answer):
        """Ends the program unless the response is a success of the document; returns its JSON."""
        status = str(answer.status_code)
        if not answer.ok or status not in operation["responses"]:
            sys.exit(f"{line}: {status} {answer.text[:1000]}")
        content = self.response(operation, status).get("content", {})
        media = answer.headers.get("Content-Type", "").split(";")[0]
        if content and media not in content and "*/*" not in content:
            sys.exit(f"{line}: the type {media} is not in {list(content)}")
        if media != "application/json" or not content:
            return answer.text
        self.fits(content[media]["schema"], answer.json(), f"{line}: the response")
        return answer.json()

    def response(self, operation, status):
        answer = operation["responses"][status]
        return self.document["components"]["responses"][answer["$ref"].split("/")[-1]] if "$ref" in answer else answer

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield f"{method.upper()} {path}", operation

    def all_are_told(self):
        """Ends the program if an operation was not called with each type of its body."""
        for line, operation in self.operations():
            for media in operation.get("requestBody", {"content": [None]})["content"]:
                if (line, media) not in self.told:
                    sys.exit(f"{line} was not called with {media or 'its parameters'}")

    def all_have_examples(self):
        for line, operation in self.operations():
            for status in operation["responses"]:
                self.has_examples(line, status, self.response(operation, status).get("content", {}))
        for name, item in self.document["webhooks"].items():
            self.has_examples(name, "event", item["post"]["requestBody"]["content"])

    def has_examples(self, line, status, contents):
        for media, content in contents.items():
            if media in WITHOUT_EXAMPLE or (status == "503" and "anyOf" in content["schema"]):
                continue
            what = f"{line}: the example of {status} {media}"
            if "example" not in content:
                sys.exit(f"{what} is missing")
            self.fits(content["schema"], content["example"], what)
            if found := list(placeholders(content["example"])):
                sys.exit(f"{what} has only the names of {found}")


def placeholders(example, name=None):
    """Yields the members whose value is their name, which the document has if a field has no example."""
    if isinstance(example, dict):
        for key, value in example.items():
            yield from placeholders(value, key)
    elif isinstance(example, list):
        for value in example:
            yield from placeholders(value, "item")
    elif example == name:
        yield name


def accounts(story):
    """Ada registers, an Admin approves her, and she logs in."""
    tell = story.tell
    ada = tell("POST /api/user/register")
    email = ada["email"]
    tell("POST /api/user/email/confirm-request")
    tell("POST /api/user/email/confirm", token=story.token(email, 1))
    tell("GET /api/admin/users/{id}", "admin", id=ada["id"])
    tell("PUT /api/admin/users/{id}", "admin", id=ada["id"])
    tell("POST /api/user/password/reset-request")
    tell("POST /api/user/password/reset", token=story.token(email, 2))
    story.tokens["ada"] = tell("POST /api/auth/login")["accessToken"]
    tell("GET /api/auth/me", "ada")
    tell("PATCH /api/auth/me", "ada")
    tell("GET /api/admin/users", "admin")
    tell("POST /api/admin/users", "admin")
    tell("POST /api/organization/invitations", "ada")
    tell("GET /api/organization/members", "ada")
    return ada


def sessions(story):
    tell = story.tell
    body = {"username": "ada@example.com", "password": "correct horse battery staple", "remember": True}
    cookie = story.send("POST", "/api/auth/login", None, json=body).headers["Set-Cookie"].split(";")[0]
    tell("POST /api/auth/refresh", headers={"Cookie": cookie})
    others = [session for session in tell("GET /api/auth/sessions", "ada") if not session["current"]]
    tell("DELETE /api/auth/sessions/{id}", "ada", id=others[0]["id"])


def member(story, who, email, kind):
    """Registers and approves another account that the examples name, and logs it in."""
    password = f"the password of {who}"
    body = {"firstName": who, "lastName": "Example", "email": email, "password": password, "orgName": f"{who} Ltd",
            "organizationType": kind}  # fmt: skip
    account = story.call("POST", "/api/user/register", json=body)
    story.call("PUT", f"/api/admin/users/{account['id']}", "admin", json={"status": "Active"})
    story.login(who, email, password)
    return account


def chat(story):
    tell = story.tell
    started = tell("POST /api/chat/conversations/start", "operator")["conversation"]
    tell("POST /api/chat/conversations/find", "operator")
    tell("POST /api/chat/conversations/{id}/messages", "operator", id=started["id"])
    tell("GET /api/chat/conversations/user/{email}", "operator")
    tell("GET /api/chat/conversations", "operator")
    tell("GET /api/chat/search", "operator")
    tell("GET /api/chat/chain/{headUuid}", "operator", headUuid=started["headUuid"])
    tell("GET /api/chat/unread-count/{email}", "operator")
    tell("GET /api/chat/unread-devices/{email}", "operator")
    posted = tell("POST /api/chat/conversations/{id}/attachments", "operator", id=started["id"])
    tell("GET /api/chat/conversations/{id}/attachments/{attachmentId}", "operator", id=started["id"],
         attachmentId=posted["attachments"][0]["id"])
    tell("POST /api/chat/conversations/{id}/typing", "operator", id=started["id"])
    tell("PATCH /api/chat/conversations/{id}/read", "operator", id=started["id"])
    tell("POST /api/chat/conversations/{id}/share", "operator", id=started["id"])
    tell("POST /api/chat/conversations/{id}/close", "operator", id=started["id"])
    tell("POST /api/chat/conversations/{id}/reopen", "operator", id=started["id"])


def programs(story, ada, operator):
    tell = story.tell
    client = tell("POST /api/auth/clients", "operator")
    secrets = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    tell("POST /api/auth/getAccess", **secrets)
    tell("POST /api/auth/getAccess", media="application/x-www-form-urlencoded", **secrets)
    tell("GET /api/auth/clients", "operator")
    tell("PATCH /api/auth/clients/{id}", "operator", id=client["id"])
    tell("POST /api/auth/clients/{id}/rotate-secret", "operator", id=client["id"])
    tell("DELETE /api/auth/clients/{id}", "operator", id=client["id"])
    tell("POST /api/organization", "operator")
    tell("GET /api/admin/organizations", "admin")
    tell("PUT /api/admin/organizations/{id}", "admin", id=ada["organizationId"], apiUserId=operator["id"])


def bulk(story):
    """Registers the plant by a bulk upload, and deletes it."""
    tell = story.tell
    upload = tell("POST /api/bulk-upload", "ada")["bulkUploadId"]
    tell("GET /api/bulk-upload/template.csv", "ada")
    tell("POST /api/bulk-upload/{bulkUploadId}/confirm", "ada", bulkUploadId=upload)
    if "event: ended" not in tell("GET /api/bulk-upload/{bulkUploadId}/stream", "ada", bulkUploadId=upload):
        sys.exit("the stream has no end")
    log = tell("GET /api/bulk-upload/bulk-upload-log/{bulkUploadId}", "ada", bulkUploadId=upload)
    if log["progress"]["succeeded"] != 1:
        sys.exit(f"the rows of the example are not stored: {log}")
    tell("GET /api/bulk-upload/{bulkUploadId}/failed.csv", "ada", bulkUploadId=upload)
    other = tell("POST /api/bulk-upload", "ada")["bulkUploadId"]
    tell("POST /api/bulk-upload/{bulkUploadId}/cancel", "ada", bulkUploadId=other)
    tell("GET /api/bulk-upload", "ada")
    tell("DELETE /api/bulk-upload/{bulkUploadId}", "ada", bulkUploadId=other)
    tell("DELETE /api/device/{externalId}", "ada")


def devices(story):
    tell, form = story.tell, "multipart/form-data"
    tell("POST /api/device", "ada", media=form)
    tell("DELETE /api/device/{externalId}", "ada")
    tell("POST /api/device", "ada")
    for line in ("PATCH /api/device/{externalId}", "PATCH /api/device/by-site/{siteName}"):
        tell(line, "ada")
        tell(line, "ada", media=form)
    for path in ("", "/my", "/externalId/{externalId}", "/{externalId}"):
        tell(f"GET /api/device{path}", "ada")
    documents = tell("GET /api/device/{externalId}/documents", "ada")
    for method in ("GET", "PATCH", "DELETE"):
        tell(f"{method} /api/device/{{externalId}}/documents/{{documentId}}", "ada", documentId=documents[0]["id"])
    tell("GET /api/admin/device-duplicates", "admin")
    for name in ("countries", "fuel-codes", "device-types", "time-zones"):
        tell(f"GET /api/reference/{name}", "ada")


def groups(story, buyer):
    tell = story.tell
    group = tell("POST /api/device-group", "ada")["id"]
    tell("GET /api/device-group", "ada")
    tell("GET /api/device-group/{id}", "ada", id=group)
    tell("PATCH /api/device-group/{id}", "ada", id=group)
    tell("DELETE /api/device-group/{id}/devices/{deviceId}", "ada", id=group)
    tell("POST /api/device-group/{id}/devices", "ada", id=group)
    tell("POST /api/device-group/{id}/share", "ada", id=group, organizationId=buyer["organizationId"])
    tell("GET /api/device-group/{id}/share", "ada", id=group)
    tell("GET /api/device-group/shared", "buyer")
    tell(
        "DELETE /api/device-group/{id}/share/{organizationId}", "ada", id=group, organizationId=buyer["organizationId"]
    )
    tell("DELETE /api/device-group/{id}", "ada", id=group)


def readings(story):
    tell = story.tell
    for path in ("/new/{externalId}", "/addByAdmin/new/{externalId}", "/{externalId}"):
        stored = tell(f"POST /api/meter-reads{path}", "ada")["reads"][0]["id"]
        for shown in ("new/{externalId}", "new/{externalId}/export.csv", "new/{externalId}/totals",
                      "latestread/{externalId}"):  # fmt: skip
            tell(f"GET /api/meter-reads/{shown}", "ada")
        tell("DELETE /api/meter-reads/new/{externalId}/{readingId}", "ada", readingId=stored)
    tell("GET /api/meter-reads/latestread", "ada")
    tell("GET /api/meter-reads/refused", "ada")


def certificates(story):
    """A History reading gets a certificate, whose issuer is an Admin."""
    tell = story.tell
    body = {"type": "History", "unit": "kWh", "startDate": "2026-04-03T00:00:00Z", "endDate": "2026-04-04T00:00:00Z",
            "value": 31}  # fmt: skip
    story.call("POST", "/api/meter-reads/new/PLANT-7", "ada", json=body)
    entry = story.soon("a certificate", lambda: story.call("GET", "/api/certificate-log", "ada"))[0]["id"]
    for path in ("", "/issuer/certifiedlogOfdevices", "/export.csv", "/totals", "/explain"):
        tell(f"GET /api/certificate-log{path}", "ada")
    tell("GET /api/device/{externalId}/coverage", "ada")
    tell("GET /api/certificate-log/{id}", "ada", id=entry)
    tell("GET /api/certificate-log/{id}/certificate", "ada", id=entry)
    tell("PATCH /api/certificate-log/{id}", "admin", id=entry)


def webhooks(story):
    tell, base = story.tell, "/api/chat/webhooks"
    hook = tell(f"POST {base}", "ada")["id"]
    for path in ("", "/events", "/statistics"):
        tell(f"GET {base}{path}", "ada")
    for line in ("GET {id}", "PATCH {id}", "POST {id}/test", "POST {id}/filter/test", "POST {id}/rotate-secret",
                 "GET {id}/statistics", "GET {id}/deliveries/export.csv"):  # fmt: skip
        method, path = line.split()
        tell(f"{method} {base}/{path}", "ada", id=hook)
    delivery = tell(f"GET {base}/{{id}}/deliveries", "ada", id=hook)[0]["id"]
    tell(f"GET {base}/{{id}}/deliveries/{{deliveryId}}", "ada", id=hook, deliveryId=delivery)
    tell(f"POST {base}/{{id}}/deliveries/{{deliveryId}}/resend", "ada", id=hook, deliveryId=delivery)
    for line in ("POST {id}/recover", "POST {id}/replay", "GET {id}/replay", "DELETE {id}/replay"):
        method, path = line.split()
        tell(f"{method} {base}/{path}", "ada", id=hook)
    story.call("PATCH", f"{base}/{hook}", "ada", json={"signature": "both"})
    tell(f"GET {base}/{{id}}/jwks", id=hook)
    tell(f"DELETE {base}/{{id}}", "ada", id=hook)


def polling(story):
    tell, base = story.tell, "/api/chat/webhooks"
    hook = story.call("POST", base, "ada", json={"kind": "poll", "events": []})["id"]
    story.call("PATCH", "/api/device/PLANT-7", "ada", json={"capacity": 9.8})
    poll = f"{base}/{hook}/events"
    offset = story.soon("an event", lambda: story.call("GET", poll, "ada")["events"])[0]["offset"]
    tell(f"GET {base}/{{id}}/events", "ada", id=hook)
    tell(f"POST {base}/{{id}}/commit", "ada", id=hook, offset=offset)
    tell(f"GET {base}/{{id}}/consumers", "ada", id=hook)
    tell(f"DELETE {base}/{{id}}/consumers/{{consumer}}", "ada", id=hook)


def service(story):
    for path in ("/swagger-json", "/openapi.json", "/openapi.yaml", "/api/health", "/api/health/ready",
                 "/api/health/status", "/console/about"):  # fmt: skip
        story.tell(f"GET {path}")
    for path in ("/metrics", "/api/admin/audit-log", "/api/admin/audit-log/export.csv"):
        story.tell(f"GET {path}", "admin")
    story.tell("GET /console/settings", "ada")
    with story.send("GET", "/api/chat/stream", "ada", stream=True) as stream:  # it never ends
        if stream.status_code != 200 or not stream.headers["Content-Type"].startswith("text/event-stream"):
            sys.exit(f"GET /api/chat/stream: {stream.status_code}")
    story.told.add(("GET /api/chat/stream", None))


def main(url, email, password, mails):
    story = Story(url, mails)
    story.all_have_examples()
    story.login("admin", email, password)
    ada = accounts(story)
    sessions(story)
    operator = member(story, "operator", "operator@example.com", "ApiUser")
    buyer = member(story, "buyer", "buyer@example.com", "Buyer")
    chat(story)
    programs(story, ada, operator)
    bulk(story)
    devices(story)
    groups(story, buyer)
    readings(story)
    certificates(story)
    webhooks(story)
    polling(story)
    service(story)
    story.tell("PUT /api/user/password", "ada")
    story.tell("POST /api/auth/logout", "ada")
    story.tell("POST /api/admin/rotate-secret", "admin")
    story.all_are_told()


main(*sys.argv[1:])
