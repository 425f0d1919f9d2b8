"""How hard the property tests try: HYPOTHESIS_PROFILE=thorough for many more examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("quick", max_examples=60, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
