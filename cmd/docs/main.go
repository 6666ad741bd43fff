// Command docs writes the document that is made from the catalogue: docs FILE, where FILE is docs/workloads.md.
package main

import (
	"fmt"
	"os"

	"github.com/nettoll/nettoll/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want FILE, got %q", args)
	}
	text, err := cli.WorkloadsDocument()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o666)
}
