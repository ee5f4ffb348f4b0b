// Package load proposes values again and again, and reports how fast they were acknowledged.
//
// It is the same for every peer written in Go. Its output is two lines of JSON: one when the measured window begins and
// one when it is over; between them somebody else reads the processor time of all processes.
package load

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

// Load is what to propose: Window callers, each with one value of Size bytes under way.
type Load struct {
	Window  int
	Size    int
	Seconds float64
	WarmUp  float64
}

// Flags declares the options of a load; a process whose window is 0 only serves.
func Flags() *Load {
	load := &Load{}
	flag.IntVar(&load.Window, "window", 0, "callers with one value under way each; 0: only serve")
	flag.IntVar(&load.Size, "size", 100, "bytes of a value")
	flag.Float64Var(&load.Seconds, "seconds", 3, "measured seconds")
	flag.Float64Var(&load.WarmUp, "warm-up", 1, "seconds of load before that")
	return load
}

type event struct {
	Event      string  `json:"event"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Failed     int     `json:"failed"`
}

// Run proposes until the window is over, prints both lines, and then waits to be killed.
//
// An operation counts when it began in the window. The window ends when the last one is answered, so that the rate has
// no operation whose time it lacks.
func (load *Load) Run(propose func(caller int, value []byte) error) {
	begin := time.Now().Add(seconds(load.WarmUp))
	end := begin.Add(seconds(load.Seconds))
	took := make([][]float64, load.Window)
	failed := make([]int, load.Window)
	var callers sync.WaitGroup
	for caller := range load.Window {
		callers.Add(1)
		go func() {
			defer callers.Done()
			value := make([]byte, load.Size)
			for now := time.Now(); now.Before(end); now = time.Now() {
				err := propose(caller, value)
				switch {
				case err != nil:
					failed[caller]++
					time.Sleep(time.Millisecond) // a peer that is too busy says so at once
				case !now.Before(begin):
					took[caller] = append(took[caller], float64(time.Since(now).Microseconds())/1000)
				}
			}
		}()
	}
	time.Sleep(time.Until(begin))
	say(event{Event: "begin"})
	callers.Wait()
	lasted := time.Since(begin).Seconds()
	var all []float64
	failures := 0
	for caller := range load.Window {
		all = append(all, took[caller]...)
		failures += failed[caller]
	}
	if len(all) == 0 {
		Fail(fmt.Errorf("nothing was acknowledged, and %d values were refused", failures))
	}
	sort.Float64s(all)
	say(event{"end", len(all), lasted, all[len(all)/2], all[len(all)*99/100], failures})
	select {}
}

// Fail ends the process with a reason.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func say(what event) {
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
