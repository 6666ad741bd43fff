// Command nettoll measures what every part of a container network costs, and proves what it protects.
package main

import (
	"context"
	"os"

	"github.com/nettoll/nettoll/cli"
)

// version is set by the linker; see the Makefile.
var version string

func main() {
	os.Exit(cli.Run(context.Background(), version, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}
