# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What of a profile is told: names that public projects use for secrets, and what is on the list of the harmless."""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import EnvRef
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.secrets import (
    as_reference,
    is_harmless_env,
    is_harmless_option,
    public_args,
    public_env,
)

# Variables in which public projects and services take secrets, or values that may hold one.
SECRET_ENV = """
    ACCESS_KEY ADMIN_PASSWORD AI21_API_KEY AIRTABLE_API_KEY ALIBABA_CLOUD_ACCESS_KEY_SECRET ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN
    API_KEY APP_SECRET ARM_CLIENT_SECRET AUTH0_CLIENT_SECRET AUTH_BEARER AUTH_TOKEN AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    AWS_SESSION_TOKEN AZURE_API_KEY AZURE_CLIENT_SECRET AZURE_OPENAI_API_KEY AZURE_STORAGE_CONNECTION_STRING AZURE_STORAGE_KEY
    AZURE_STORAGE_SAS_TOKEN BASIC_AUTH BEARER_TOKEN BRAVE_API_KEY CF_API_TOKEN CIRCLE_TOKEN CLIENT_SECRET CLOUDFLARE_API_KEY
    CODECOV_TOKEN COHERE_API_KEY COMET_API_KEY CONSUL_HTTP_TOKEN COOKIE_SECRET DATABASE_URL DATABRICKS_TOKEN DB_PASS DB_PASSWD DB_PWD
    DD_API_KEY DEEPSEEK_API_KEY DIGITALOCEAN_ACCESS_TOKEN DISCORD_BOT_TOKEN DISCORD_WEBHOOK DJANGO_SECRET_KEY DOCKER_AUTH_CONFIG
    DOCKER_PASSWORD DOCKERHUB_TOKEN ELASTIC_PASSWORD ENCRYPTION_KEY EXA_API_KEY FIREWORKS_API_KEY FLY_API_TOKEN GCP_SA_KEY GEMINI_API_KEY
    GH_PAT GH_TOKEN GITHUB_PAT GITHUB_TOKEN GITLAB_TOKEN GIT_ASKPASS GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS
    GOOGLE_CLIENT_SECRET GPG_PASSPHRASE GRAFANA_TOKEN GROQ_API_KEY HASURA_GRAPHQL_ADMIN_SECRET HEROKU_API_KEY HF_API_TOKEN HF_ENDPOINT
    HF_TOKEN HTTPS_PROXY HTTP_PROXY HUGGINGFACEHUB_API_TOKEN HUGGING_FACE_HUB_TOKEN INFINITY_API_KEY INFLUXDB_TOKEN JINA_API_KEY JIRA_API_TOKEN
    JWT_SECRET KAFKA_SASL_PASSWORD KEYCLOAK_CLIENT_SECRET LANGCHAIN_API_KEY LANGFUSE_SECRET_KEY LDAP_BIND_PASSWORD LICENSE_KEY
    LITELLM_MASTER_KEY LITELLM_SALT_KEY LLAMA_API_KEY LLAMA_ARG_API_KEY LLAMA_ARG_HF_TOKEN LLAMA_ARG_SSL_KEY LMCACHE_CONFIG_FILE
    MAILGUN_API_KEY MINIO_ROOT_PASSWORD MISTRAL_API_KEY MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_URI MODAL_TOKEN_SECRET MODELSCOPE_API_TOKEN
    MONGO_URI MONGODB_URI MYSQL_PWD MYSQL_ROOT_PASSWORD MY_PASSPHRASE MY_PIN MY_PW NATS_CREDS NEPTUNE_API_TOKEN NETRC NGC_API_KEY NGROK_AUTHTOKEN
    NOTION_TOKEN NPM_TOKEN NVIDIA_API_KEY NVIDIA_NGC_TOKEN OAUTH_CLIENT_SECRET OPENAI_API_KEY OPENAI_API_KEYS OPENAI_API_KEY_2
    OPENROUTER_API_KEY OTEL_EXPORTER_OTLP_HEADERS PAGERDUTY_TOKEN PERPLEXITY_API_KEY PGPASSWORD PGPASSFILE PINECONE_API_KEY
    POSTGRES_PASSWORD PROMETHEUS_REMOTE_WRITE_PASSWORD PROXMOX_TOKEN_SECRET PVE_PASSWORD PYPI_TOKEN QDRANT_API_KEY RABBITMQ_DEFAULT_PASS
    RAY_AUTH_TOKEN RAY_REDIS_PASSWORD RAY_TLS_SERVER_KEY REDIS_PASSWORD REDIS_URL REGISTRY_AUTH REPLICATE_API_TOKEN RUNPOD_API_KEY S3_PASS S3_SECRET
    S3_ACCESS_KEY SECRET SECRET_KEY_BASE SENDGRID_API_KEY SENTRY_AUTH_TOKEN SENTRY_DSN SGLANG_API_KEY SGLANG_ADMIN_API_KEY SIGNING_SECRET
    SLACK_BOT_TOKEN SLACK_WEBHOOK_URL SMTP_PASS SNOWFLAKE_PASSWORD SONAR_TOKEN SQUARE_ACCESS_TOKEN SSH_PRIVATE_KEY STRIPE_SECRET_KEY
    SUPABASE_SERVICE_ROLE_KEY SURREAL_PASS TAILSCALE_AUTHKEY TAVILY_API_KEY TELEGRAM_BOT_TOKEN TF_TOKEN_app_terraform_io TOGETHER_API_KEY
    TOKEN TWILIO_AUTH_TOKEN TWINE_PASSWORD UNIFI_PASSWORD UPSTASH_REDIS_REST_TOKEN VAULT_TOKEN VERCEL_TOKEN VLLM_API_KEY VLLM_API_KEY_2
    VLLM_S3_ACCESS_KEY_ID VLLM_HTTP_PROXY VOYAGE_API_KEY WANDB_API_KEY WEAVIATE_API_KEY WEBUI_SECRET_KEY XAI_API_KEY ZAPIER_SECRET
    hf_token https_proxy password
"""
# Options of public programs whose value is a secret or may hold one; each with how its value is written.
SECRET_ARGS = """
    --api-key=* --api-key_* --admin-api-key_* --hf-token_* --otlp-headers_* --otlp-headers=* --otlp-traces-endpoint_* --password_*
    --auth-token_* --client-secret=* --authorization_* --bearer_* --header_* -H_* --user_* -u_* --proxy_* --https-proxy=*
    --redis-password_* --redis-url_* --db-url=* --kv-transfer-config_* --model-loader-extra-config_* --middleware_* --ssl-password_*
    --ssl-keyfile-password_* --license-key=* --webhook_* --aws-secret-access-key_* --s3-secret_* --registry-auth_* --cookie_*
    --token_* --access-token=* --jwt_* --passphrase_* --pat_* --credentials=* --connection-string_* --basic-auth_* --pin_*
"""
TOLD = "s3cr3t-of-somebody"
HARMLESS_ENV = [
    "CUDA_VISIBLE_DEVICES",
    "NCCL_SOCKET_IFNAME",
    "NCCL_DEBUG",
    "OMP_NUM_THREADS",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_HOST_IP",
    "VLLM_LOGGING_LEVEL",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_CUDA_ARCH_LIST",
    "TOKENIZERS_PARALLELISM",
    "LLAMA_ARG_CTX_SIZE",
    "GGML_CUDA_FORCE_MMQ",
    "HSA_OVERRIDE_GFX_VERSION",
    "SGLANG_ENABLE_JIT_DEEPGEMM",
    "RAY_DEDUP_LOGS",
    "VLLM_USE_V1",
    "LD_LIBRARY_PATH",
    "TZ",
    "TRITON_CACHE_DIR",
    "VLLM_DECODE_CONTEXT_PARALLEL",
]
HARMLESS_ARGS = [
    *(
        "--max-num-seqs",
        "64",
        "--kv_cache_dtype",
        "fp8",
        "--enable-prefix-caching",
        "-ngl",
        "99",
        "-np=4",
        "--rope-theta",
        "-1.5",
    ),
    *(
        "--hf-overrides",
        '{"architectures": ["X"]}',
        "--api-key-file",
        "/run/key",
        "--tool-call-parser",
        "hermes",
        "-x",
        "--flag",
    ),
    *("--lora-modules", "a=/models/a", "b=/models/b", '--compilation-config={"level": 3}', "--tokenizer", "x"),
]


def test_there_are_two_hundred_of_them():
    assert len(set(SECRET_ENV.split())) + len(set(SECRET_ARGS.split())) >= 200


@pytest.mark.parametrize("name", SECRET_ENV.split())
def test_variables_of_public_projects_go_by_their_name(name):
    assert not is_harmless_env(name)
    assert public_env({name: TOLD}) == {name: f"${{{name}}}"}


@pytest.mark.parametrize("form", SECRET_ARGS.split())
def test_arguments_of_public_projects_are_not_told(form):
    option, parted, _star = form.partition("=") if "=" in form else form.partition("_*")
    words = [f"{option}={TOLD}"] if parted == "=" else [option, TOLD, TOLD]
    told = public_args(["--seed", "1", *words, f"{option} {TOLD}", "--dtype", "auto"])
    assert TOLD not in " ".join(told)
    assert told[:2] == ["--seed", "1"]
    assert told[-2:] == ["--dtype", "auto"]


def test_what_is_known_to_be_harmless_is_told():
    env = dict.fromkeys(HARMLESS_ENV, "1")
    assert public_env(env) == env
    assert public_args(HARMLESS_ARGS) == HARMLESS_ARGS
    assert is_harmless_option("--max_model_len")
    assert not is_harmless_option("--max-model-length")


@pytest.mark.parametrize(
    "value",
    [
        "http://u:PW@proxy:3128",
        "https://hub?access_token=x",
        "Bearer x",
        "s3://k:s@b/m",
        "a -----BEGIN PRIVATE KEY-----",
    ],
)
def test_a_secret_inside_of_a_harmless_value_is_not_told(value):
    assert public_env({"HF_HOME": value}) == {"HF_HOME": "${HF_HOME}"}
    assert public_args(["--chat-template", value, f"--tokenizer={value}"]) == [
        *("--chat-template", "${KNASTER_ARG_CHAT_TEMPLATE}"),
        *("--tokenizer", "${KNASTER_ARG_TOKENIZER}"),
    ]


def test_what_is_not_told_has_a_name_so_that_nothing_is_lost():
    assert public_args(["--otlp-headers", "a=x", "b=y", "--new_thing=7", "word"]) == [
        *("--otlp-headers", "${KNASTER_ARG_OTLP_HEADERS}", "${KNASTER_ARG_OTLP_HEADERS_2}"),
        *("--new_thing", "${KNASTER_ARG_NEW_THING}", "${KNASTER_ARG_NEW_THING_2}"),
    ]
    assert public_args(["word"]) == ["${KNASTER_ARG_1}"]
    # The options of keys are left out: the engine has its key from a variable.
    assert public_args(["--api_key", "a", "b", "--admin-api-key=b", "-x"]) == ["-x"]
    assert as_reference("${KNASTER_ARG_OTLP_HEADERS}") == EnvRef("KNASTER_ARG_OTLP_HEADERS")
    # Nothing else of a machine is put into a command.
    assert as_reference("${PATH}") == "${PATH}"
    assert as_reference("x${KNASTER_ARG_X}") == "x${KNASTER_ARG_X}"


def test_what_was_made_public_stays_so():
    once = public_args(["--otlp-headers", "a=x", "--seed", "1"])
    assert public_args(once) == once
