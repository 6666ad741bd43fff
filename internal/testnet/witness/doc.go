// Package witness tells a test whether other work took the CPUs away from it, by the kernel's own accounts and not by
// what the test measured.
package witness
