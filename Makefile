# For people: meson and ninja do the work. As root on Debian the targets install
# what they need (tools/deps says what); elsewhere they name what is missing.

BUILD ?= build
PREFIX ?= /usr/local
WEFT_CACHE ?= /var/cache/weft
export WEFT_CACHE
NINJA = ninja -C $(BUILD)

all: build

$(BUILD)/build.ninja:
	@tools/deps
	meson setup $(BUILD) --prefix=$(PREFIX) -Dopenssl_root=$(WEFT_CACHE)/openssl-3.5

build: $(BUILD)/build.ninja
	@tools/deps
	$(NINJA)

# Everything that CI runs.
test:
	tools/test

# Unit tests and simulation, in under a minute.
check: build
	meson test -C $(BUILD) --suite unit --suite sim --print-errorlogs

install: build
	meson configure $(BUILD) --prefix=$(PREFIX)
	meson install -C $(BUILD)

# A binary package in $(BUILD)/.
deb:
	tools/deb

# Targets of parts that a tree may lack.
ifneq ($(wildcard test/demo/run),)
.PHONY: demo
demo: build
	@tools/deps --demo
	test/demo/run
endif
ifneq ($(wildcard bench/run),)
.PHONY: bench bench-quick
bench: build
	@tools/deps --test
	-@tools/peers trixie bench >/dev/null
	bench/run --out $(BUILD)/bench-results
bench-quick: build
	@tools/deps --test
	-@tools/peers trixie >/dev/null
	bench/run --quick --out $(BUILD)/bench-results
endif
ifneq ($(wildcard fuzz/meson.build),)
.PHONY: coverage fuzz soak fuzz-soak sim-soak
fuzz:
	@tools/deps --test
	tools/fuzz 60
# Lines of the codecs that unit tests and fuzz corpora run.
coverage:
	@tools/deps --test
	tools/coverage
# Long fuzzing, long simulation.
soak: fuzz-soak $(if $(wildcard test/sim),sim-soak)
fuzz-soak:
	@tools/deps --test
	tools/fuzz 900
sim-soak: build
	test/sim/soak $(BUILD)
endif

format:
	tools/check_format --fix

lint: build
	tools/check_layers
	tools/check_budget
	tools/check_commits
	tools/check_format
	tools/lint

clean:
	rm -rf $(BUILD) build-*

.PHONY: all build test check install deb format lint clean
