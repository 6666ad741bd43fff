// Package workloadtest is the conformance suite that every workload runs, and what it takes to run one trial in a test.
package workloadtest
