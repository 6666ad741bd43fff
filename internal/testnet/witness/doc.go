// Package witness reports to a test whether other work took the CPUs away from it, according to the kernel's own
// accounts and not to the measurements of the test.
package witness
