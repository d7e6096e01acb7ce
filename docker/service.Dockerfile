# One image for every service but the sandbox: docker build -f docker/service.Dockerfile --build-arg SERVICE=gateway .
# The build context is the root of the repository. No BuildKit is needed.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_NO_CACHE=1
RUN python -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir uv==0.13.9
WORKDIR /app
# What others publish changes with the lock alone, so it is a layer of its own, before the first line of ours.
COPY pyproject.toml uv.lock ./
ARG SERVICE
# Names of the package's extras, with spaces between.
ARG EXTRAS=""
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-install-workspace --package "skillbus-${SERVICE}" \
    $(for extra in ${EXTRAS}; do printf -- '--extra %s ' "$extra"; done)
COPY libs libs
COPY services/${SERVICE} services/${SERVICE}
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-editable --package "skillbus-${SERVICE}" \
    $(for extra in ${EXTRAS}; do printf -- '--extra %s ' "$extra"; done)

FROM ${PYTHON_IMAGE}
COPY docker/probe.py /app/probe.py
COPY --from=build /app/.venv /app/.venv
# A new volume takes its owner from this folder.
RUN mkdir /data && chown 10001:10001 /data
ARG SERVICE
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 SERVICE=${SERVICE}
WORKDIR /data
USER 10001:10001
CMD ["sh", "-c", "exec python -m skillbus.${SERVICE}"]
