package idle

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func files(texts map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range texts {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestAsleep(t *testing.T) {
	states := map[string]string{
		cpuDir + "cpu0/cpuidle/state0/time": "70000\n", // awake
		cpuDir + "cpu0/cpuidle/state1/time": "1000\n",
		cpuDir + "cpu0/cpuidle/state2/time": "200\n",
		cpuDir + "cpu1/cpuidle/state1/time": "30\n",
		cpuDir + "cpu2/cpuidle/state1/time": "much\n",
	}
	if got, err := Asleep(files(states), []int{0, 1}); err != nil || got != 1230*time.Microsecond {
		t.Errorf("CPUs 0 and 1 slept %v, error %v; want 1.23 ms", got, err)
	}
	if _, err := Asleep(files(states), []int{2}); err == nil || !strings.Contains(err.Error(), "CPU 2") {
		t.Errorf("error %v, want one that names CPU 2", err)
	}
	if _, err := Asleep(files(states), []int{3}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want that the kernel has no idle states", err)
	}
}

func TestDriven(t *testing.T) {
	const driver = cpuDir + "cpuidle/current_driver"
	for text, want := range map[string]bool{"haltpoll\n": true, "intel_idle\n": true, "none\n": false, "": false} {
		root := files(map[string]string{driver: text})
		if text == "" {
			root = files(nil)
		}
		if err := driven(root); (err == nil) != want || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("driver %q: error %v", text, err)
		}
	}
	for text, want := range map[string]bool{"ro idle=poll quiet\n": true, "ro idle=nomwait\n": false, "": false} {
		if got := Polls(files(map[string]string{"proc/cmdline": text})); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
