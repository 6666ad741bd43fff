// Package workloadtest is the conformance suite that every workload runs, with the tools to run one trial in a test.
package workloadtest
