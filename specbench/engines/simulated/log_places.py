"""Where each version prints a line of its launch log: file and line number of 0.23.0 and of 0.32.0.

Nothing reads them but people: they move with every release. Line 0 was not captured.
"""

from __future__ import annotations

BANNER = ("api_utils.py:339", "api_utils.py:347")
ARGUMENTS = ("api_utils.py:273", "api_utils.py:286")
MODEL = ("model.py:611", "model.py:733")
LENGTH = ("model.py:1745", "model.py:2152")
CHUNKED = ("scheduler.py:239", "scheduler.py:307")
ASYNC_OFF = ("vllm.py:974", "vllm.py:1605")
ASYNC = ("vllm.py:999", "")
EAGER = ("vllm.py:0", "vllm.py:1703")
BUDGET = ("vllm.py:1597", "vllm.py:2276")
FALLBACK = ("vllm.py:535", "vllm.py:732")
CORE = ("core.py:113", "core.py:133")
RUNNER = ("gpu_worker.py:303", "gpu_worker.py:518")
LOADING_V1 = ("gpu_model_runner.py:5092", "gpu_model_runner.py:5040")
LOADING_V2 = ("model_runner.py:298", "model_runner.py:392")
DRAFTER = ("gpu_model_runner.py:5116", "gpu_model_runner.py:5071")
LOADED_V1 = ("gpu_model_runner.py:5187", "gpu_model_runner.py:5149")
LOADED_V2 = ("model_runner.py:319", "model_runner.py:424")
ATTENTION = ("cuda.py:378", "cuda.py:506")
COMPILED = ("monitor.py:53", "monitor.py:62")
MEMORY = ("gpu_worker.py:480", "gpu_worker.py:759")
CACHE = ("kv_cache_utils.py:1744", "kv_cache_utils.py:2327")
CONCURRENCY = ("kv_cache_utils.py:1745", "")
SPECULATOR = ("speculator.py:101", "speculator.py:110")
CAPTURED_V1 = ("gpu_model_runner.py:6585", "gpu_model_runner.py:6581")
CAPTURED_V2 = ("model_runner.py:701", "model_runner.py:1127")
ENGINE = ("core.py:306", "core.py:402")
TASKS = ("api_server.py:579", "entry.py:136")
SECURITY = ("__init__.py:36", "__init__.py:44")
STARTING = ("api_server.py:583", "entry.py:140")
ROUTES = ("launcher.py:37", "launcher.py:186")
ROUTE = ("launcher.py:46", "launcher.py:195")
FAILED = ("core.py:0", "core.py:1510")
