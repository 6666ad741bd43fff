package program

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for said, want := range map[string]string{
		"sockperf, version 3.7-no.git\n   compiled 2021-08-23 12:14:23\n": "3.7-no.git",
		"iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18.44\n":                   "3.12",
		"nuttcp-6.1.2\n":               "6.1.2",
		"ping from iputils 20221126\n": "20221126",
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n": "7.0.15",
		"redis-benchmark 7.0.15\n":                                       "7.0.15",
		"nginx version: nginx/1.22.1\n":                                  "1.22.1",
		"wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\n": "4.1.0-3+b2",
		"dbench version 4.00 - Copyright Andrew Tridgell 1999-2004\n\nInvalid option --version: unknown": "4.00",
		"usage: x [options]": "",
		"":                   "",
	} {
		if got, found := version([]byte(said)); got != want || found != (want != "") {
			t.Errorf("%.40q: %q, %v, want %q", said, got, found, want)
		}
	}
}

func TestLocate(t *testing.T) {
	for pkg, want := range map[string]string{"some-package": "apt-get install some-package", "": "install it"} {
		_, err := Needed{By: "workload x", Program: "no-such-program", Package: pkg}.Locate()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "workload x") {
			t.Errorf("%q: %v", pkg, err)
		}
	}
}

// A choice by what is installed becomes one value or the other; a program that is named stays.
func TestChoose(t *testing.T) {
	for name, want := range map[string]string{"sh": "real", "no-such-program": "own"} {
		choose := Needed{Program: name}.Choose("real", "own")
		if got, err := choose(Installed); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
		for _, given := range []string{"real", "own"} {
			if got, err := choose(given); got != given || err != nil {
				t.Errorf("%s, %s: %q, %v", name, given, got, err)
			}
		}
	}
}
