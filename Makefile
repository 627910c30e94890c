# One entry for people; the work is in `cargo xtask` and scripts/.
CARGO ?= cargo

.PHONY: crash-story help run test bench guided fuzz setup clean

help:
	@echo 'make run    build, then show the whole thing in one screen (under two minutes)'
	@echo 'make test   install missing test clients, then everything that must pass'
	@echo 'make bench  compare with peers on this machine (make bench QUICK=1: shorter)'
	@echo 'make guided a build guided by a profile, which simulates and proves faster: target/guided/seekless'
	@echo 'make fuzz   bounded fuzzing of the parsers and of the volumes'
	@echo 'make crash-story   LevelDB 1.22 against 1.23: a defect found, and its correction (docs/findings.md)'
	@echo 'make setup  only install the clients that the tests talk to'

run:
	$(CARGO) build --release --package seekless
	./target/release/seekless demo

test: setup
	$(CARGO) xtask ci

bench:
	$(CARGO) xtask bench $(if $(QUICK),--quick)

guided:
	$(CARGO) xtask guided

crash-story:
	$(CARGO) build --release --package seekless
	SEEKLESS="$(CURDIR)/target/release/seekless" sh findings/run leveldb

fuzz:
	$(CARGO) xtask ci fuzz

setup:
	@bash scripts/setup.sh

clean:
	$(CARGO) clean
