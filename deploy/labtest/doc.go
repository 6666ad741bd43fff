// Package labtest holds a fake deployment, with faults on demand, and the suite that every deployment runs.
package labtest
