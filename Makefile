# Everything the project needs, from nothing but python3.11 and make. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# The frameworks that the tests exercise for real; each gets its own environment under STEPLAB_HOME.
FRAMEWORKS := torch tensorflow jax mxnet chainer velox onnxruntime
# From Debian: ChainerMN runs under Open MPI; the report's tests and figures need a browser; a cluster in a box needs
# `ip` and `tc`, and its tests real hosts to log in to; the tests of the executor slurm start a real Slurm.
DEBIAN := openmpi-bin libopenmpi-dev chromium iproute2 openssh-client openssh-server slurm-wlm munge
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help setup debian envs demo sources test lint check docs bench clean
help:          ## this list
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 12

$(BIN)/steplab: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(BIN)/steplab   ## .venv with the command steplab in it

debian:        ## the Debian packages that are needed, if any is missing
	@dpkg-query --show --showformat='$${Status}\n' $(DEBIAN) 2>/dev/null | grep -c '^install ok installed' | grep -qx $(words $(DEBIAN)) \
	|| ($(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq $(DEBIAN) >/dev/null)

envs: setup debian  ## the framework environments
	$(BIN)/steplab env create $(FRAMEWORKS)
	$(BIN)/steplab env create torch --with "transformers>=5,<6" --name transformers

demo: setup    ## measure, analyse, fit, predict and report a small real PyTorch study
	$(BIN)/steplab env create torch
	$(BIN)/steplab run studies/demo.toml --out runs/demo
	$(BIN)/steplab analyze runs/demo
	$(BIN)/steplab fit runs/demo --target t_iter --extrinsic batch_size,workers --categorical strategy --out runs/demo/model.json
	$(BIN)/steplab predict runs/demo/model.json --at "batch_size=256,workers=4,strategy=sync"
	$(BIN)/steplab report runs/demo --out runs/demo/report.html

sources: setup ## the studies of the sources at laptop size, and their pages; can be interrupted and continued
	$(BIN)/steplab sources

lint: setup    ## style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint    ## lint, types, import rules, docs
	$(BIN)/pytest -q tests/docs -m "not framework"

# Six workers, also on two cores: tests wait a lot (for ranks, for a Slurm, for a kill to be noticed), and beside busy
# programs six processes get a larger share than two. Together they hold about 10 GB.
test: setup envs lint  ## all tests, in real frameworks
	$(BIN)/pytest -q -n 6 --dist loadfile --no-loadscope-reorder

docs: setup    ## the documentation as a site, in site/
	$(BIN)/mkdocs build --quiet

bench: setup envs  ## the benchmarks: speeds and disturbances, as figures
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@missed=; for file in benchmarks/[!_]*.py; do echo "== $$file"; $(BIN)/python $$file || missed="$$missed $$file"; done; \
	[ -z "$$missed" ] || { echo "not passed:$$missed"; exit 1; }

clean:         ## remove what can be made again
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
