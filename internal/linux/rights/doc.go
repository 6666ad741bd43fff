// Package rights says what the kernel lets a process do: its capabilities, system calls and profiles. It also takes
// rights away from a thread.
package rights
