# stateplan's command line and SQL gateway.
#
#   docker build -t stateplan .
#   docker run --rm -it -v "$PWD:/work" stateplan sql
#
# Extras for connectors: docker build --build-arg EXTRAS=kafka,jdbc -t stateplan .
#
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY stateplan stateplan
COPY cli cli
COPY common common
COPY connectors connectors
COPY evolution evolution
COPY execnodes execnodes
COPY functions functions
COPY gateway gateway
COPY planner planner
COPY plans plans
COPY review review
COPY runtime runtime
COPY session session
COPY testing testing
COPY editor editor
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# The newest security updates of the release, not a version that will be gone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 stateplan \
    && install --directory --owner=stateplan --group=stateplan /state
COPY --from=build /wheels /wheels
ARG EXTRAS=""
# The wheel is the one that was built above.
# hadolint ignore=DL3013
RUN set -- /wheels/*.whl && pip install --no-cache-dir "$1${EXTRAS:+[$EXTRAS]}" && rm -rf /wheels
USER 1000
RUN stateplan archive-classes
WORKDIR /work
# tini hands signals on, so that `docker stop` ends jobs after the micro-batch in hand.
ENTRYPOINT ["tini", "--", "stateplan"]
CMD ["sql"]
