# The one way in: `make install`, `make demo`, `make test`. Everything lives in .venv.
PYTHON  ?= python3
WORKERS ?= 2
BIN     := .venv/bin
ifeq ($(OS),Windows_NT)
BIN     := .venv/Scripts
endif
PIP     := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help install demo test learn processors pages faults lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make install     regard and what it needs, at the tested versions, into .venv"
	@echo "make demo        install, then run 'regard demo'"
	@echo "make lint        style and types: ruff, mypy"
	@echo "make test        lint, then the tests, but those of pages and of what is learnt"
	@echo "make learn       small trainings that must reach their score"
	@echo "make processors  the tests that compute, as on a processor with AVX2 only, and with less"
	@echo "make pages       every view of the viewer in a browser, at three widths"
	@echo "make faults      the tests that do harm, all of it, with their counts"
	@echo "make bench       regard beside its peers: make bench NAME=train QUICK=--quick"
	@echo "make clean       remove .venv, caches and builds"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter, WORKERS=4 the number of test processes."
	@echo "Where pip would fetch a CUDA build of torch and none is wanted, name the index that has"
	@echo "the CPU builds in PIP_EXTRA_INDEX_URL."

install: .venv/.installed

demo: install
	$(BIN)/regard demo

lint: .venv/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# One thread per worker: several torch processes that each use every core slow each other down.
# The tests write and read text as UTF-8, which is not what Windows takes by default.
test: lint
	PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --ignore=tests/browser --ignore=tests/learn

learn: .venv/.installed-test
	PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/learn -n $(WORKERS)

# What a processor has decides which kernels run. These settings make a newer one behave like an older.
AVX2    := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2
PLAIN   := ATEN_CPU_CAPABILITY=default
LAYERS  := $(addprefix tests/unit/test_, $(addsuffix .py, \
    attention cnn_bag compare crf cross_entropy device dropout gradients inspect linear model \
    pooling position profile recurrent rnn_parts search short_attention training transformer)) \
    $(addprefix tests/fault/test_, $(addsuffix .py, determinism golden machines memory numbers resume))
processors: .venv/.installed-test
	$(AVX2) OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) tests/parity tests/learn tests/contract $(LAYERS)
	$(PLAIN) OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) tests/parity/test_torch.py \
	    tests/parity/test_recurrent_torch.py tests/learn $(LAYERS)

# Every view of every task in a browser, at three widths.
pages: .venv/.installed-test
	REGARD_PAGES=full PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/browser -n $(WORKERS)

# Kills, damage, hostile files: make test does a sample of what this does.
faults: .venv/.installed-test
	REGARD_FAULTS=full PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/fault tests/serve -n $(WORKERS)

# Peers are installed into virtual environments of their own, under .bench.
NAME ?= train
bench: .venv/.installed-test
	$(BIN)/python -m bench $(NAME) $(QUICK)

clean:
	rm -rf .venv .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	  "regard needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 ..." % v[:2])'
	$(PYTHON) -m venv .venv

# The stamps are older than what they were made from only after pyproject or constraints changed.
.venv/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

.venv/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[test]'
	@touch $@ .venv/.installed
