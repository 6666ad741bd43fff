// Command docs writes the generated documents.
//
//	docs FILE                           docs/workloads.md or docs/between.md, from the catalogue
//	docs FILE KERNEL=OUTPUT...          docs/parts.md, from the output of the conformance suites (go test -v) by kernel;
//	                                    in docs/security.md the tables of attacks, from what nettoll prove --format json
//	                                    prints
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) == 0 {
		return errors.New("want FILE, or FILE and KERNEL=OUTPUT for each kernel")
	}
	if len(args) > 1 && filepath.Base(args[0]) == "security.md" {
		return security(args[0], args[1:], time.Now())
	}
	if len(args) > 1 {
		return parts(args[0], args[1:])
	}
	document := cli.WorkloadsDocument
	if filepath.Base(args[0]) == "between.md" {
		document = cli.BetweenDocument
	}
	text, err := document()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o666)
}

// parts writes docs/parts.md.
func parts(file string, given []string) error {
	var all []outcome
	var between []pair
	for _, arg := range given {
		kernel, output, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("want KERNEL=OUTPUT, got %q", arg)
		}
		f, err := os.Open(output)
		if err != nil {
			return err
		}
		list, err := outcomes(f, kernel)
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		var more []pair
		if err == nil {
			more, err = pairs(f, kernel)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", output, err)
		}
		all, between = append(all, list...), append(between, more...)
	}
	text, err := partsDocument(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(cli.WrapDocument(text+pairsDocument(between))), 0o666)
}
