package divert

//go:generate go tool -modfile=../../../../tools/go.mod bpf2go -cc clang-14 -tags linux -no-global-types -target bpfel -output-stem object object divert.c -- -O2 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
