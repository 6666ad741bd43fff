package process

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstExtra is the number of the first file of exec.Cmd.ExtraFiles in the child.
const firstExtra = 3

// Pass passes open files to the process that cmd will start, with their names: it appends "--file", "NAME=FD" to the
// arguments for each file, in the order of the names.
func Pass(cmd *exec.Cmd, files map[string]*os.File) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		cmd.Args = append(cmd.Args, "--file", fmt.Sprintf("%s=%d", name, firstExtra+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, files[name])
	}
}

// Inherited returns the files that this process received by "--file" options, whose values are NAME=FD. Neither these
// files nor others that were open at its start are passed on to children, unless [Pass] does it. It may be called only
// once, because a file has one owner.
func Inherited(values []string) (map[string]*os.File, error) {
	files, err := named(values, func(name string, fd int) (*os.File, error) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	})
	if err != nil {
		return nil, err
	}
	// Files that a shell left open are not needed here. Kernels before 5.11 do not know the flag (close_range(2)),
	// which does no harm.
	_ = unix.CloseRange(firstExtra, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return files, nil
}

// named opens files of the form NAME=FD.
func named(values []string, open func(name string, fd int) (*os.File, error)) (map[string]*os.File, error) {
	files := make(map[string]*os.File, len(values))
	for _, v := range values {
		i := strings.LastIndexByte(v, '=')
		if i <= 0 {
			return nil, fmt.Errorf("invalid inherited file %q (valid: NAME=FD)", v)
		}
		name := v[:i]
		fd, err := strconv.Atoi(v[i+1:])
		if err != nil || fd < firstExtra {
			return nil, fmt.Errorf("invalid inherited file %q (valid: a number from %d after the last '=')", v, firstExtra)
		}
		if files[name] != nil {
			return nil, fmt.Errorf("inherited file %q: the name is given twice", v)
		}
		if files[name], err = open(name, fd); err != nil {
			return nil, fmt.Errorf("inherited file %q: %w", v, err)
		}
	}
	return files, nil
}
