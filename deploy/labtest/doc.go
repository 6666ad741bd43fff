// Package labtest holds a fake deployment, whose faults can be planned, and the suite that every deployment runs.
package labtest
