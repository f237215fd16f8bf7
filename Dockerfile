# exhume without development tools: docker build --tag exhume . && docker run --rm --volume "$PWD:/data" exhume demo
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# --build-arg PIP_EXTRA_INDEX_URL=... names an index with the CPU build of torch, which is much smaller.
ARG PIP_EXTRA_INDEX_URL
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt torch==2.13.0 \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt "exhume[sweep] @ file://$(echo /wheels/*.whl)" \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 exhume \
    && mkdir /data \
    && chown exhume /data
USER 1000
WORKDIR /data
ENTRYPOINT ["exhume"]
CMD ["--help"]
