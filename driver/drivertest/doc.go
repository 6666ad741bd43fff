// Package drivertest is the conformance suite that every driver runs, with its real program in a private machine.
package drivertest
