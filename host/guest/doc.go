// Package guest boots virtual machines with a kernel other than this machine's, Debian's for clouds, to try what this
// machine's kernel lacks. [Prepare] makes their image from packages: the kernel as apt downloads it, without installing
// it, and programs as they are installed here. [Boot] runs a shell script in a guest.
//
// A guest is a program in memory. It has no disk and no network device; what it writes is gone when it ends, and it
// ends with this process. The processor is emulated (qemu's TCG). That needs no privilege and works inside other
// virtual machines, but is at least ten times slower: a guest shows whether something works, not how fast it is.
package guest
