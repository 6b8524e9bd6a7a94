"""Why a service cannot be used, in one line, and what to do about it."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_LONGEST = 200
_CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# Where the storage library looks for credentials when none are set: the metadata server of a cloud.
_METADATA_PATHS = ("/latest/api/token", "/latest/meta-data/")
_S3_FAULTS = {
    "NoSuchBucket": ("there is no bucket {bucket}", "create the bucket, or correct OPILIO_BLOBS_URL"),
    "InvalidAccessKeyId": ("the access key is unknown", "correct AWS_ACCESS_KEY_ID"),
    "SignatureDoesNotMatch": ("the secret key is wrong", "correct AWS_SECRET_ACCESS_KEY"),
    "AccessDenied": (
        "the credentials may not use the bucket {bucket}",
        "allow s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject on it, or use other credentials",
    ),
    "RequestTimeTooSkewed": (
        "the clocks of this machine and of the storage differ",
        "synchronise both (NTP)",
    ),
    "AuthorizationHeaderMalformed": (
        "the region is wrong",
        "set AWS_REGION, or `region=` in OPILIO_BLOBS_URL",
    ),
    "PermanentRedirect": (
        "the bucket {bucket} is in another region",
        "set AWS_REGION, or `region=` in OPILIO_BLOBS_URL",
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    said: str
    remedy: str


def one_line(error: BaseException | str) -> str:
    """The first line of what a library says, cut to a length that fits a terminal."""
    text = str(error).strip() or type(error).__name__
    line = " ".join(text.splitlines()[0].split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def storage_fault(error: BaseException, url: str) -> Fault:
    bucket, text = urlsplit(url).netloc, str(error)
    if code := re.search(r"<Code>(\w+)</Code>", text):
        said, remedy = _S3_FAULTS.get(
            code[1], (f"the storage answers {code[1]}", "look the code up in its documentation")
        )
        return Fault(said.format(bucket=bucket), remedy)
    if any(path in text for path in _METADATA_PATHS):
        return Fault("there are no credentials", f"set {_CREDENTIALS}")
    if "ConnectError" in text or "dns error" in text:
        return Fault("no connection", "start it, or correct OPILIO_BLOBS_URL")
    return Fault(one_line(error), f"correct OPILIO_BLOBS_URL, {_CREDENTIALS}")


def redis_fault(error: BaseException, _url: str) -> Fault:
    text = one_line(error)
    if "password" in text.lower() or "NOAUTH" in text or "Authentication" in text:
        return Fault(f"the login is refused: {text}", "correct user and password in OPILIO_REDIS_URL")
    return Fault(f"no connection: {text}", "start Redis, or correct OPILIO_REDIS_URL")
