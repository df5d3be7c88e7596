"""Every error of botocore has a meaning here, and no text of it gets out."""

from __future__ import annotations

import inspect

import boto3.exceptions
import botocore.exceptions
import botocore.session
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from schemas.errors import StoreError, StoreUnavailable
from workers.store.s3_errors import BUSY, CODES, DEFECT, DENIED, family_of, family_of_answer, sentence_about

OPERATIONS = (
    *("GetObject", "HeadObject", "PutObject", "DeleteObject", "ListObjectsV2"),
    *("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"),
)
# DynamoDB's and those of boto3's resource layer, which nothing here uses
NOT_OURS = {
    *("ResourceLoadException", "NoVersionFound", "UnknownAPIVersionError", "ResourceNotExistsError"),
    *("DynamoDBOperationNotSupportedError", "DynamoDBNeedsConditionError", "DynamoDBNeedsKeyConditionError"),
    "InvalidCrtTransferConfigError",
}


def foreign() -> list[type[Exception]]:
    found: set[type[Exception]] = set()
    for module, root in ((botocore.exceptions, BotoCoreError), (boto3.exceptions, boto3.exceptions.Boto3Error)):
        classes = (made for _, made in inspect.getmembers(module, inspect.isclass) if issubclass(made, root))
        found |= {made for made in classes if made is not root and made.__name__ not in NOT_OURS}
    return sorted(found, key=lambda made: made.__name__)


@pytest.mark.parametrize("error", foreign(), ids=lambda error: error.__name__)
def test_every_error_of_botocore_is_in_a_family(error):
    assert family_of(error) is not None


def test_every_answer_that_our_requests_can_get_is_in_a_family():
    """SlowDown too is a place that is busy, and the commit is tried again later (pain 46)."""
    service = botocore.session.get_session().get_service_model("s3")
    modelled = {shape.name for name in OPERATIONS for shape in service.operation_model(name).error_shapes}
    assert modelled
    assert modelled <= set().union(*CODES.values())


def test_a_code_is_in_one_family():
    assert sum(map(len, CODES.values())) == len(set().union(*CODES.values()))


@pytest.mark.parametrize(
    ("code", "status", "family"),
    [("SlowDown", 503, BUSY), ("New", 503, BUSY), ("New", 599, BUSY), ("New", 403, DENIED), ("New", 418, DEFECT)],
)
def test_an_unknown_code_is_judged_by_its_status(code, status, family):
    assert family_of_answer(code, status) is family


def test_a_sentence_says_what_where_and_what_to_do_and_nothing_of_the_foreign_text():
    answer = ClientError(
        {"Error": {"Code": "SlowDown", "Message": "secret"}, "ResponseMetadata": {"HTTPStatusCode": 503}},  # type: ignore[typeddict-item]
        "PutObject",
    )
    assert sentence_about(answer, "write to", "s3://b/p", "commits/0/x.json") == (
        StoreUnavailable,
        "Cannot write to the store s3://b/p at commits/0/x.json: the server is busy or at fault (SlowDown 503);"
        " wait and run again.",
    )


def test_a_failed_transfer_is_what_it_failed_of():
    try:
        try:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "UploadPart")
        except ClientError as error:
            raise boto3.exceptions.S3UploadFailedError("secret") from error
    except boto3.exceptions.S3UploadFailedError as failed:
        kind, sentence = sentence_about(failed, "write to", "s3://b", "")
    assert kind is StoreError
    assert "may not do this here (AccessDenied" in sentence
    assert "secret" not in sentence
