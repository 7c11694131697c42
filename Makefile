# Everything happens in .venv, which the first target makes. Another Python: make book PYTHON=…
.DEFAULT_GOAL := help
.PHONY: help book test lab lint check check-book fuzz exhaustive test-grading mutation gpu-check reference bench bench-view vendor clean

RUN = @PYTHON="$(PYTHON)" SOLUTIONS="$(SOLUTIONS)" sh .ci/python .ci/make.py

help: ## Say what the targets do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

book: ## Set up .venv if need be, build the book, say which page to open (SOLUTIONS=1: for teachers)
	$(RUN) book

test: ## Everything: lint, types, tests, notebooks, the book built anew, the built book in Chromium
	$(RUN) test

lab: ## Open the book's notebooks in JupyterLab
	$(RUN) lab

lint: ## Ruff, mypy and the spelling alone
	$(RUN) lint

check: ## Run the notebooks of exercises: what is done, wrong, to do (NAME=one-step: that one alone)
	$(RUN) check $(NAME)

check-book: ## The book's notebooks three times in a row, warnings on (10 minutes)
	$(RUN) check-book

fuzz: ## 5,000 random streams of requests: no wrong slot, no lost page, the tokens of a run alone
	$(RUN) fuzz

exhaustive: ## Every stream of small worlds, under sanitizer and integrity (about 40 minutes)
	$(RUN) exhaustive

test-grading: ## Many honest and hostile submissions, each in its sandbox (half an hour)
	$(RUN) test-grading

mutation: ## Small changes to the exercises' right answers, each checked; writes the table (minutes)
	$(RUN) mutation

gpu-check: ## Kernels, graphs and speed on the GPU that is here (4 minutes; says so where none is)
	$(RUN) gpu-check

reference: ## Step for step beside mini-sglang itself, from your clone: MINISGL_PATH=its python folder
	$(RUN) reference

bench: ## Beside transformers, and mini-sglang's managers with MINISGL_PATH (15 minutes)
	$(RUN) bench $(if $(JSON),--json $(JSON))

bench-view: ## What a step of the view costs in Chromium: work, first picture, bytes (2 minutes)
	$(RUN) bench-view

vendor: ## Renew the browser files that the book carries (needs npm)
	$(RUN) vendor

clean: ## Remove the built book and the caches
	$(RUN) clean
