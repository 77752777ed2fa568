package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// figures are all that was measured in one run.
type figures struct {
	Machine  string
	Day      string
	Versions map[string]string
	Clients  int
	Seconds  float64 // of a measurement

	Few, Paused   int
	Points        []point  // by workers and system
	Light         []point  // the same with two workers, where nothing is busy
	Turns         []point  // few and many paused sessions, in turns
	PausedRatio   float64  // cycles with few, over those with many: the median
	PausedBytes   float64  // that a paused session takes in the database
	FinishedBytes float64  // and one that has come to its end
	Held          *holding `json:",omitempty"`
}

// pausedOf returns how many sessions are paused beside a system's measurement.
func (f *figures) pausedOf(system string) int {
	if system == "fermata" {
		return f.Few
	}
	return 0
}

func readFigures(file string) (f figures, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

func (f *figures) write(file string) error {
	b, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
