"""What botocore's errors mean for a store: each of its families has one reason and one piece of advice.

The text of a foreign error is never passed on, because servers and libraries put keys, tokens and signed URLs into it;
its class or code is, and so is the HTTP status. A test fails when botocore grows an error that is in no family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import boto3.exceptions
import botocore.exceptions as foreign

from schemas.errors import StoreError, StoreUnavailable


@dataclass(frozen=True, slots=True)
class Family:
    """Errors that mean one thing: what went wrong, what to do, and whether the same call may succeed later."""

    reason: str
    advice: str
    kind: type[StoreError] = StoreError


CREDENTIALS = Family(
    "there are no usable AWS credentials",
    "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
)
WRONG_CREDENTIALS = Family(
    "the server does not accept these credentials", "correct or renew the AWS credentials, and check the endpoint"
)
DENIED = Family(
    "these credentials may not do this here",
    "grant s3:ListBucket on the bucket and s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix",
)
BUCKET = Family("there is no such bucket", "check the name and the endpoint, or create the bucket")
REGION = Family("the bucket is in another region", "set AWS_REGION to the bucket's own")
CLOCK = Family("this machine's clock is wrong", "set the clock, which may differ from the server's by minutes only")
BUSY = Family("the server is busy or at fault", "wait and run again", StoreUnavailable)
UNREACHED = Family(
    "the server does not answer", "check the endpoint, the network and that it is up, and run again", StoreUnavailable
)
TLS = Family("the server's certificate is not trusted", "set AWS_CA_BUNDLE, or correct the endpoint's name")
PROXY = Family("the proxy does not answer", "correct HTTPS_PROXY, or name the server in NO_PROXY", StoreUnavailable)
DAMAGED = Family("the bytes arrived damaged", "run again; if it stays so, check the network", StoreUnavailable)
FULL = Family("the server has no room for this", "make room or raise the quota, and run again")
ENCRYPTION = Family(
    "the server cannot encrypt as asked", "check the encryption, the KMS key and the permission to use it"
)
UNSUPPORTED = Family(
    "the server does not know this request", "use a server that has conditional writes, checksums and multipart uploads"
)
SETTINGS = Family("the AWS settings do not hold together", "correct the AWS configuration file and environment")
ADDRESS = Family("the address makes no sense", "correct the endpoint, the region and the name of the bucket")
TAKEN = Family("the name is taken or being taken", "run again", StoreError)
ARCHIVED = Family("the object is in an archive", "restore it, and keep stores out of archiving rules")
DEFECT = Family("the request was not one that the server takes", "report this with the name that stands here")

FAMILIES: Final[tuple[tuple[Family, tuple[type[Exception], ...]], ...]] = (
    (TLS, (foreign.SSLError,)),
    (PROXY, (foreign.ProxyConnectionError, foreign.InvalidProxiesConfigError)),
    (UNREACHED, (foreign.ConnectionError, foreign.HTTPClientError)),
    (BUSY, (foreign.CapacityNotAvailableError,)),
    (
        DAMAGED,
        (
            foreign.ChecksumError,
            foreign.FlexibleChecksumError,
            foreign.AwsChunkedWrapperError,
            foreign.IncompleteReadError,
        ),
    ),
    (
        CREDENTIALS,
        (
            foreign.NoCredentialsError,
            foreign.PartialCredentialsError,
            foreign.CredentialRetrievalError,
            foreign.UnknownCredentialError,
            foreign.MetadataRetrievalError,
            foreign.InvalidIMDSEndpointError,
            foreign.InvalidIMDSEndpointModeError,
            foreign.LoginError,
            foreign.SSOError,
            foreign.NoAuthTokenError,
            foreign.TokenRetrievalError,
            foreign.UnknownTokenProviderError,
            foreign.RefreshWithMFAUnsupportedError,
            foreign.ProfileNotFound,
        ),
    ),
    (
        ADDRESS,
        (
            foreign.BaseEndpointResolverError,
            foreign.EndpointProviderError,
            foreign.InvalidEndpointConfigurationError,
            foreign.InvalidEndpointDiscoveryConfigurationError,
            foreign.InvalidDNSNameError,
            foreign.InvalidHostLabelError,
            foreign.InvalidRegionError,
            foreign.ServiceNotInRegionError,
            foreign.UnknownRegionError,
            foreign.UnsupportedOutpostResourceError,
            foreign.UnsupportedS3AccesspointConfigurationError,
            foreign.UnsupportedS3ArnError,
            foreign.UnsupportedS3ConfigurationError,
            foreign.UnsupportedS3ControlArnError,
            foreign.UnsupportedS3ControlConfigurationError,
        ),
    ),
    (
        SETTINGS,
        (
            foreign.ConfigNotFound,
            foreign.ConfigParseError,
            foreign.InvalidChecksumConfigError,
            foreign.InvalidConfigError,
            foreign.InvalidDefaultsMode,
            foreign.InvalidRetryConfigurationError,
            foreign.InvalidS3AddressingStyleError,
            foreign.InvalidS3UsEast1RegionalEndpointConfigError,
            foreign.InvalidSTSRegionalEndpointsConfigError,
            foreign.MD5UnavailableError,
            foreign.MissingDependencyException,
            foreign.UnknownSignatureVersionError,
            foreign.UnsupportedSignatureVersionError,
        ),
    ),
    (
        DEFECT,
        (
            foreign.ApiVersionNotFoundError,
            foreign.DataNotFoundError,
            foreign.InvalidExpressionError,
            foreign.MissingParametersError,
            foreign.OperationNotPageableError,
            foreign.PaginationError,
            foreign.ParamValidationError,
            foreign.StubResponseError,
            foreign.UnknownClientMethodError,
            foreign.UnknownServiceStyle,
            foreign.UnseekableStreamError,
            foreign.UnStubbedResponseError,
            foreign.UnsupportedServiceProtocolsError,
            foreign.ValidationError,
            foreign.WaiterConfigError,
            foreign.WaiterError,
        ),
    ),
    # a transfer that failed wraps what it failed of; see `_inmost`
    (UNREACHED, (boto3.exceptions.RetriesExceededError, boto3.exceptions.S3TransferFailedError)),
    (UNREACHED, (boto3.exceptions.S3UploadFailedError,)),
)


def _named(codes: str) -> frozenset[str]:
    return frozenset(codes.split())


CODES: Final[dict[Family, frozenset[str]]] = {
    WRONG_CREDENTIALS: _named(
        "AuthFailure ExpiredToken ExpiredTokenException InvalidAccessKeyId InvalidClientTokenId"
        " InvalidSecurity InvalidToken NotSignedUp SignatureDoesNotMatch TokenRefreshRequired"
        " UnrecognizedClientException"
    ),
    DENIED: _named("AccessDenied AccountProblem AllAccessDisabled Forbidden UnauthorizedAccess InvalidPayer 401 403"),
    BUCKET: frozenset({"NoSuchBucket", "InvalidBucketName"}),
    REGION: _named(
        "AuthorizationHeaderMalformed IllegalLocationConstraintException IncorrectEndpoint PermanentRedirect"
        " Redirect TemporaryRedirect 301 307"
    ),
    CLOCK: frozenset({"RequestExpired", "RequestTimeTooSkewed"}),
    BUSY: _named(
        "BandwidthLimitExceeded Busy InternalError InternalFailure OperationAborted RequestLimitExceeded"
        " RequestThrottled RequestTimeout RequestTimeoutException ServiceUnavailable SlowDown Throttling"
        " ThrottlingException TooManyRequests TooManyRequestsException 408 429 500 502 503 504"
    ),
    DAMAGED: frozenset(["BadDigest", "IncompleteBody", "InvalidDigest", "XAmzContentSHA256Mismatch"]),
    FULL: _named("EntityTooLarge InsufficientStorage QuotaExceeded XMinioStorageFull TooManyParts 507"),
    ENCRYPTION: _named(
        "EncryptionTypeMismatch InvalidEncryptionAlgorithmError KMS.DisabledException"
        " KMS.InvalidKeyUsageException KMS.KMSInvalidStateException KMS.NotFoundException"
        " ServerSideEncryptionConfigurationNotFoundError"
    ),
    UNSUPPORTED: frozenset({"MethodNotAllowed", "NotImplemented", "405", "501"}),
    TAKEN: frozenset({"ConditionalRequestConflict", "PreconditionFailed", "409", "412"}),
    ARCHIVED: frozenset({"InvalidObjectState", "ObjectNotInActiveTierError"}),
    DEFECT: _named(
        "IdempotencyParameterMismatch InvalidArgument InvalidRange InvalidRequest InvalidWriteOffset"
        " KeyTooLongError MalformedXML NoSuchKey NoSuchUpload 400 404 416"
    ),
}

_BY_CODE: Final = {code: family for family, codes in CODES.items() for code in codes}


def family_of(error: type[Exception]) -> Family | None:
    """The family of one of the classes of botocore or boto3, the answers of a server aside; None if it is in none."""
    return next((family for family, kinds in FAMILIES if issubclass(error, kinds)), None)


def family_of_answer(code: str, status: int) -> Family:
    """The family of a server's error answer: by its code, by its status where the code is not known."""
    return _BY_CODE.get(code) or _BY_CODE.get(str(status)) or (BUSY if status >= 500 else DEFECT)


def sentence_about(error: Exception, verb: str, where: str, path: str) -> tuple[type[StoreError], str]:
    """The StoreError that an error becomes, as its class and its one sentence."""
    inmost = _inmost(error)
    if isinstance(inmost, foreign.ClientError):
        response: Any = inmost.response
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = str(response.get("Error", {}).get("Code", ""))
        family = family_of_answer(code, status)
        name = code if code == str(status) else f"{code} {status}".strip()
    else:
        family = family_of(type(inmost)) or DEFECT
        name = type(inmost).__name__
    at = f" at {path}" if path else ""
    return family.kind, f"Cannot {verb} the store {where}{at}: {family.reason} ({name}); {family.advice}."


def _inmost(error: Exception) -> Exception:
    """The error of botocore that an error of boto3 was raised over."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, boto3.exceptions.Boto3Error) and isinstance(cause, Exception):
        return _inmost(cause)
    return error
