# SPDX-License-Identifier: Apache-2.0
#
# make build      the environment .venv, the libraries, the package installed into .venv
# make demo       build, then train a small language model; ARGS="--steps 100" passes options
# make test       build, then the C++ tests (plain and under two sanitizers) and the Python tests
# make test-full  the same and the slow tests: the wheel in an empty environment, stress
# make bench      build, then the measurements under bench/; ARGS="--quick" for a rough look
# make lint       formatting and static checks; make format applies the formatting
# make clean      removes everything that the commands above made
#
# No command needs root. PYTHON chooses the interpreter, CXX the compiler, JOBS the parallel jobs.
SHELL := bash
PYTHON ?=
JOBS ?=
ARGS ?=
export PYTHON JOBS
VENV := .venv/bin

.PHONY: build environment demo test test-full sanitizers bench lint format clean
.DEFAULT_GOAL := build

environment:
	@tools/setup/environment.sh

build: environment
	@tools/setup/build.sh release

sanitizers: environment
	@tools/setup/build.sh address
	@tools/setup/build.sh thread

demo: build
	@$(VENV)/python demo/train_gpt.py $(ARGS)

test: build sanitizers
	@$(VENV)/python -m pytest tests $(ARGS)

test-full: build sanitizers
	@$(VENV)/python -m pytest tests -m "" $(ARGS)

bench: build
	@$(VENV)/python bench/run.py $(ARGS)

lint: environment
	@tools/setup/lint.sh --check

format: environment
	@tools/setup/lint.sh --fix

clean:
	rm -rf .venv build dist python/torch_neuronx/kernels
	find python tests tools demo bench -name __pycache__ -prune -exec rm -rf {} +
	find python -name '*.so' -delete
