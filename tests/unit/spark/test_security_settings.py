"""Tests that a mistyped setting for security is refused, and no other one."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.spark.security_settings import refuse_mistyped


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("spark.autenticate", "spark.authenticate"),
        ("spark.Authenticate", "spark.authenticate"),
        ("spark.network.crypto.enable", "spark.network.crypto.enabled"),
        ("spark.io.encription.enabled", "spark.io.encryption.enabled"),
        ("spark.ssl.rpc.enable", "spark.ssl.enabled"),
        ("spark.ssl.trustStorePasword", "spark.ssl.trustStorePassword"),
        ("spark.hadoop.fs.s3a.acces.key", "spark.hadoop.fs.s3a.access.key"),
        ("spark.hadoop.fs.s3a.secret-key", "spark.hadoop.fs.s3a.secret.key"),
        ("spark.hadoop.fs.s3a.conection.ssl.enabled", "spark.hadoop.fs.s3a.connection.ssl.enabled"),
        ("spark.hadoop.fs.s3a.bucket.lake.secret.kye", "spark.hadoop.fs.s3a.secret.key"),
    ],
)
def test_what_is_nearly_one_is_refused(name: str, right: str) -> None:
    with pytest.raises(mt.SettingError, match=f"{name} isn't .* Did you mean {right}\\?"):
        refuse_mistyped(["spark.executor.memory", name])


def test_others_are_taken() -> None:
    names = [*mt.settings("local[2]"), "spark.executor.memory", "spark.hadoop.fs.s3a.threads.max"]
    names += ["spark.hadoop.fs.s3a.connection.maximum", "spark.hadoop.fs.s3a.connection.timeout"]
    names += ["spark.hadoop.fs.s3a.bucket.my.lake.secret.key", "spark.ssl.historyServer.keyStore"]
    names += ["spark.hadoop.fs.s3a.impl", "spark.network.timeout", "spark.authenticate.secret"]
    names += [
        "spark.hadoop.fs.s3a.committer.name",
        "spark.network.crypto.config.x",
        "spark.ui.port",
    ]
    refuse_mistyped(names)
