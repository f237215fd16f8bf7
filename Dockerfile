# exhume without development tools: docker build --tag exhume . && docker run --rm --volume "$PWD:/data" exhume demo
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# The CPU build of torch: a machine with a GPU wants an image of its own with --build-arg TORCH_INDEX=...
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt --extra-index-url "$TORCH_INDEX" torch==2.13.0 \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt "exhume[sweep] @ file://$(echo /wheels/*.whl)" \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 exhume \
    && mkdir /data \
    && chown exhume /data
USER 1000
WORKDIR /data
ENTRYPOINT ["exhume"]
CMD ["--help"]
