"""Refuses mistyped settings for security, which Spark would ignore, and hides secrets in plans."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from pyspark.sql import SparkSession

from muntin.model.errors import SettingError
from muntin.model.secrets import FOR_SPARK

_NAMES = """
spark.authenticate spark.authenticate.secret spark.authenticate.secret.file
spark.authenticate.secret.driver.file spark.authenticate.secret.executor.file
spark.authenticate.enableSaslEncryption spark.network.crypto.enabled
spark.network.crypto.authEngineVersion spark.network.crypto.keyLength
spark.network.crypto.keyFactoryAlgorithm spark.network.crypto.saslFallback
spark.network.crypto.cipher spark.network.sasl.serverAlwaysEncrypt spark.io.encryption.enabled
spark.io.encryption.keySizeBits spark.io.encryption.keygen.algorithm spark.redaction.regex
spark.redaction.string.regex
"""
_SSL_NAMES = """
certChain enabled enabledAlgorithms keyPassword keyStore keyStorePassword keyStoreType
needClientAuth openSslEnabled port privateKey privateKeyPassword protocol trustStore
trustStorePassword trustStoreReloadIntervalMs trustStoreReloadingEnabled trustStoreType
"""
_S3_NAMES = """
access.key assumed.role.arn assumed.role.credentials.provider aws.credentials.provider
connection.ssl.enabled encryption.algorithm encryption.context encryption.key endpoint
endpoint.fips endpoint.region path.style.access proxy.host proxy.password proxy.port
proxy.username secret.key security.credential.provider.path server-side-encryption-algorithm
server-side-encryption.key session.token ssl.channel.mode
"""
_VALID = [
    *_NAMES.split(),
    *(f"spark.ssl.{name}" for name in _SSL_NAMES.split()),
    *(f"spark.hadoop.fs.s3a.{name}" for name in _S3_NAMES.split()),
]
# The services that have settings of their own, and the buckets.
_WITHIN = re.compile(r"(?<=^spark\.ssl\.)(?:ui|standalone|historyServer|rpc)\.")
_BUCKET = re.compile(r"(?<=^spark\.hadoop\.fs\.s3a\.)bucket\..+?\.(?=[a-z])")
# How much of a name has to be right: more than one that differs on purpose has.
_LIKENESS = 0.93


def refuse_mistyped(names: Iterable[str]) -> None:
    """Refuse names of settings that are nearly one for security, with the right name."""
    for name in names:
        plain = _BUCKET.sub("", _WITHIN.sub("", name))
        if plain in _VALID:
            continue
        folded = {valid.lower(): valid for valid in _VALID}
        if near := get_close_matches(plain.lower(), folded, 1, _LIKENESS):
            right = folded[near[0]]
            raise SettingError(f"{name} isn't a setting of Spark. Did you mean {right}?")


REDACTION_SETTING = "spark.sql.redaction.options.regex"


def hide_secrets(spark: SparkSession) -> None:
    """Have Spark hide the values of options that are secrets.

    By default it hides passwords and tokens, but prints private keys.
    """
    pattern = spark.conf.get(REDACTION_SETTING, None) or ""
    if FOR_SPARK not in pattern:
        spark.conf.set(REDACTION_SETTING, f"{pattern}|{FOR_SPARK}" if pattern else FOR_SPARK)
