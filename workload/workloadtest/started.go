package workloadtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Started lists the processes of a program that this process has started and that have not ended.
func Started(t testing.TB, program string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Fatalf("list children: %v, %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			name, err := os.ReadFile("/proc/" + word + "/comm")
			if err != nil || strings.TrimSpace(string(name)) != program {
				continue
			}
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
