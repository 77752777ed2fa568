package postgres

// Alone returns how many batches of a store have met keys that other
// transactions hold, and wait for them.
func (s *Store) Alone() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.alone
}
