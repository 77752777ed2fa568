package main

import (
	"io"
	"os"
)

// onDisk is a file of the work tree, as package zip takes it.
type onDisk struct{ within, name string }

func (f onDisk) Path() string                 { return f.within }
func (f onDisk) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f onDisk) Open() (io.ReadCloser, error) { return os.Open(f.name) }
