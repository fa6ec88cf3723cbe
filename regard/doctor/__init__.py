"""What can be known to be wrong before anything is spent.

reading      the data as it is, defects noted and not refused
cost         memory and time from measured steps, and the disk
profile      where the time of a step goes
examination  all of it for a recipe: in full, or what is cheap; fields check their own values
             by what is in checks/
"""
