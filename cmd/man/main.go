// Command man writes the manual pages of a release: man DIR VERSION. Their date is that of SOURCE_DATE_EPOCH, or today.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "man: %v\n", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want DIR VERSION, got %q", args)
	}
	date := time.Now()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
		}
		date = time.Unix(seconds, 0)
	}
	if err := os.MkdirAll(args[0], 0o777); err != nil {
		return err
	}
	for name, page := range cli.ManPages(args[1], date) {
		if err := os.WriteFile(filepath.Join(args[0], name), page, 0o666); err != nil {
			return err
		}
	}
	return nil
}
