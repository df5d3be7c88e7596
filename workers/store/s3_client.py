"""How an S3 server is spoken to: options, the client made of them, and what a store's URL names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from schemas.errors import SettingError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

Addressing: TypeAlias = Literal["auto", "path", "virtual"]
Encryption: TypeAlias = Literal["", "AES256", "aws:kms", "aws:kms:dsse"]

_ADDRESSINGS: Final = ("auto", "path", "virtual")
_ENCRYPTIONS: Final = ("", "AES256", "aws:kms", "aws:kms:dsse")


@dataclass(frozen=True, slots=True)
class S3Options:
    """How an S3 server is spoken to; shapes no row. Sizes in bytes, times in seconds."""

    endpoint_url: str = ""
    """Empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the AWS configuration file, else Amazon's own."""
    addressing: Addressing = "auto"
    """`path` is https://host/bucket/key, `virtual` https://bucket.host/key; `auto` is path, but virtual for Amazon."""
    region: str = ""
    encryption: Encryption = ""
    """Server-side encryption asked for with every object; empty leaves it to the bucket's own rule."""
    kms_key: str = ""
    multipart_bytes: int = 64 * 1024 * 1024
    """Larger files are sent in parts of `part_bytes`."""
    part_bytes: int = 16 * 1024 * 1024
    attempts: int = 5
    """Of one request, the first included; botocore waits in between, longer each time and at random."""
    connect_timeout: float = 10.0
    read_timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.addressing not in _ADDRESSINGS:
            raise SettingError(f"There is no S3 addressing {self.addressing!r}; give auto, path or virtual.")
        if self.encryption not in _ENCRYPTIONS:
            raise SettingError(f"There is no server-side encryption {self.encryption!r}; give AES256 or aws:kms.")
        if self.kms_key and not self.encryption.startswith("aws:kms"):
            raise SettingError("A KMS key is given without the encryption aws:kms; give both or neither.")
        if "@" in urlsplit(self.endpoint_url).netloc:
            raise SettingError(
                "The S3 endpoint holds a user name or password; give credentials in the usual AWS places."
            )


def bucket_and_prefix(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # what is wrong with it is not repeated: it may be a secret
        raise SettingError("The store's URL holds more than s3://bucket/prefix; credentials are never part of it.")
    if parts.scheme != "s3" or not parts.netloc:
        raise SettingError(f"The store {url} is neither a folder nor an s3://bucket/prefix; give one of them.")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def client_of(options: S3Options) -> S3Client:
    # a session of our own: the default one is shared with whoever else uses boto3 in this process
    session = boto3.Session()
    client = _made(session, options, options.addressing)
    if options.addressing == "auto" and not _is_amazon(client.meta.endpoint_url):
        client = _made(session, options, "path")
    _refuse_userinfo(client.meta.endpoint_url)
    return client


def _refuse_userinfo(endpoint: str) -> None:
    if "@" in urlsplit(endpoint).netloc:
        raise SettingError("The S3 endpoint holds a user name; give credentials in the usual AWS places alone.")


def _made(session: boto3.Session, options: S3Options, addressing: Addressing) -> S3Client:
    made: S3Client = session.client(
        "s3",
        endpoint_url=options.endpoint_url or None,
        region_name=options.region or None,
        config=Config(
            s3={"addressing_style": addressing},
            retries={"mode": "standard", "total_max_attempts": options.attempts},
            connect_timeout=options.connect_timeout,
            read_timeout=options.read_timeout,
            max_pool_connections=32,
        ),
    )
    return made


def _is_amazon(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
